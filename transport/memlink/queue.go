package memlink

import "math/rand/v2"

// A queue holds keys, each once, first come first served.
type queue struct {
	keys []string
	has  map[string]struct{}
}

func (q *queue) len() int { return len(q.keys) }

// push adds k at the end unless it is in q.
func (q *queue) push(k string) {
	if _, waits := q.has[k]; waits {
		return
	}
	if q.has == nil {
		q.has = map[string]struct{}{}
	}
	q.has[k] = struct{}{}
	q.keys = append(q.keys, k)
}

// pop removes the first key. There must be one.
func (q *queue) pop() string {
	k := q.keys[0]
	q.keys = q.keys[1:]
	delete(q.has, k)
	return k
}

func (q *queue) shuffle(rnd *rand.Rand) {
	rnd.Shuffle(len(q.keys), func(i, j int) { q.keys[i], q.keys[j] = q.keys[j], q.keys[i] })
}
