package bench

import "slices"

// A tally is what is known of changes that were written, each of which carries a number that
// grows: which is the newest of each Application, and how many were written again, or after a
// later one.
type tally struct {
	newest    []int
	written   int
	repeated  int
	reordered int
}

func newTally(apps int) tally { return tally{newest: make([]int, apps)} }

func (t *tally) take(app, n int) {
	switch last := t.newest[app]; {
	case n > last:
		t.newest[app] = n
		t.written++
	case n == last:
		t.repeated++
	default:
		t.reordered++
	}
}

func (t *tally) clone() tally {
	c := *t
	c.newest = slices.Clone(t.newest)
	return c
}

// missing returns how many Applications are not as they were changed last.
func missing(newest, last []int) (n int) {
	for app, want := range last {
		if app >= len(newest) || newest[app] != want {
			n++
		}
	}
	return n
}
