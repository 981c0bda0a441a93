package bench

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// A Phase is what was measured while changes were offered at one rate. Rates are per
// second of that time, and durations milliseconds.
type Phase struct {
	Offered     int     `json:"offered"`     // how many changes there were
	Written     int     `json:"written"`     // how many of them were written; the others had been replaced by then
	OfferedRate float64 `json:"offeredRate"` // changes that were made
	SettledRate float64 `json:"settledRate"` // changes that had been written or replaced by one that had
	WrittenRate float64 `json:"writtenRate"` // changes that had been written
	// How long it took from before the change on the hub until the agent's write of it,
	// or of a later one of its Application, had returned: of half of all changes, of 99 in
	// 100, and of the slowest.
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Worst float64 `json:"worst"`
	// Backlog is how many changes were not settled when the last was made, and Growth by
	// how many a second that had grown in the second half of the time, 0 if that was not
	// more than chance.
	Backlog int     `json:"backlog"`
	Growth  float64 `json:"growth"`
	// Drain is how long it took from the last change until all were settled.
	Drain float64 `json:"drain"`
}

// measure compares changes that were offered at a rate, in their order, with what was
// written until now. Two processes of one machine share its clock.
func measure(changes []change, writes []fleet.Write, rate int, now time.Time) Phase {
	first, last := changes[0].at.UnixNano(), changes[len(changes)-1].at.UnixNano()
	offering := max(seconds(last-first), 1/float64(rate))
	settled, written := settle(changes, writes, now.UnixNano())
	p := Phase{Offered: len(changes), OfferedRate: float64(len(changes)) / offering}
	took := make([]int64, len(changes))
	for i, at := range settled {
		took[i] = at - changes[i].at.UnixNano()
		if at <= last {
			p.SettledRate += 1 / offering
		} else {
			p.Backlog++
		}
	}
	for _, at := range written {
		p.Written++
		if at <= last {
			p.WrittenRate += 1 / offering
		}
	}
	slices.Sort(took)
	p.P50, p.P99, p.Worst = millis(rank(took, 0.5)), millis(rank(took, 0.99)), millis(took[len(took)-1])
	p.Drain = millis(max(slices.Max(settled)-last, 0))
	p.Growth = growth(backlogs(changes, settled, first+(last-first)/2, last), float64(rate))
	return p
}

// settle returns when each change was written or replaced by one that was, now if it never
// was, and when each was written that was not replaced before, by its number.
func settle(changes []change, writes []fleet.Write, now int64) (settled []int64, written map[int]int64) {
	byApp := map[int][]fleet.Write{}
	for _, w := range writes {
		byApp[w.App] = append(byApp[w.App], w)
	}
	written = map[int]int64{}
	for _, c := range changes {
		at := now
		for _, w := range byApp[c.app] {
			if w.N >= c.n {
				at = min(at, w.At)
			}
			if _, known := written[c.n]; w.N == c.n && !known {
				written[c.n] = w.At
			}
		}
		settled = append(settled, at)
	}
	return settled, written
}

// spacing is between two looks at the backlog: longer than a change takes, so that what
// they see has little to do with each other.
const spacing = 500 * time.Millisecond

// backlogs returns how many changes were made and not settled, from time to time.
func backlogs(changes []change, settled []int64, from, to int64) (out []float64) {
	done := slices.Sorted(slices.Values(settled))
	for at := from; at <= to; at += int64(spacing) {
		made := sort.Search(len(changes), func(i int) bool { return changes[i].at.UnixNano() > at })
		out = append(out, float64(made-sort.Search(len(done), func(i int) bool { return done[i] > at })))
	}
	return out
}

// growth returns by how many changes a second a backlog grows, 0 unless that is more than
// chance: three times what the scatter explains, and a hundredth of what is offered.
func growth(backlog []float64, rate float64) float64 {
	n := float64(len(backlog))
	if n < 8 {
		return 0 // anything is chance
	}
	var meanX, meanY, xx, xy, rest float64
	for i, y := range backlog {
		meanX, meanY = meanX+float64(i)*spacing.Seconds()/n, meanY+y/n
	}
	for i, y := range backlog {
		x := float64(i)*spacing.Seconds() - meanX
		xx, xy = xx+x*x, xy+x*(y-meanY)
	}
	slope := xy / xx
	for i, y := range backlog {
		off := y - meanY - slope*(float64(i)*spacing.Seconds()-meanX)
		rest += off * off
	}
	if chance := 3 * math.Sqrt(rest/(n-2)/xx); slope <= chance || slope <= rate/100 {
		return 0
	}
	return slope
}

// disorder counts the writes that repeat an earlier one, and those that come after one of
// a later change.
func disorder(writes []fleet.Write) (repeated, reordered int) {
	seen, newest := map[int]bool{}, map[int]int{}
	for _, w := range writes {
		switch {
		case seen[w.N]:
			repeated++
		case w.N < newest[w.App]:
			reordered++
		}
		seen[w.N], newest[w.App] = true, max(newest[w.App], w.N)
	}
	return repeated, reordered
}

// rank returns what a share of sorted values does not exceed.
func rank(sorted []int64, share float64) int64 {
	return sorted[max(int(math.Ceil(share*float64(len(sorted))))-1, 0)]
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }
func millis(ns int64) float64  { return float64(ns) / float64(time.Millisecond) }

// median returns the middle of values.
func median(values []float64) float64 {
	v := slices.SortedFunc(slices.Values(values), cmp.Compare)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
