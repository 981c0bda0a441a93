package grpclink

import (
	"sync"
	"time"
)

// A door lets in so many agents at once, and then so many in a second. When a principal has
// been away its whole fleet stands before it: each of those that it cannot serve yet is told
// when its turn is, so that they do not come again all at once.
type door struct {
	each  time.Duration // between two that are let in
	burst int

	mu   sync.Mutex
	full time.Time // when there is no trace any more of those that were let in
	turn time.Time // of the last one who was sent away
}

// admit lets one in at a time if it returns 0, and else says how long it is to wait.
func (d *door) admit(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = later(d.full, now)
	if d.full.Sub(now) < time.Duration(d.burst)*d.each {
		d.full = d.full.Add(d.each)
		return 0
	}
	d.turn = later(d.turn, now).Add(d.each)
	return d.turn.Sub(now)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
