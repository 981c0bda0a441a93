package natslink

import (
	"time"
)

// Bounds of how long a rival is kept out.
const (
	minRivalPause = time.Second
	maxRivalPause = 30 * time.Second
	rivalry       = 2 * time.Minute // after which it is over, if nobody has returned
	maxReturns    = 2               // more than that are no accident
)

// Rivals are processes that use the name of one agent at the same time. The newest
// connection takes the place of the one before, and the one that has lost it connects again
// at once: so they would take turns, several times a second. A process that is heard again
// after another was gives them away, since one that was restarted is another process. Then
// the one that is there now is left alone for a while, longer each time.
type rivals struct {
	now      string               // the process that was heard last
	before   map[string]time.Time // when others were
	returned time.Time            // when one was heard again
	returns  int
	pause    time.Duration
}

// hears takes in that a process is heard, and returns for how long no other should be let
// in; 0 if it has no rival.
func (r *rivals) hears(process string, at time.Time) time.Duration {
	if process == r.now {
		return 0
	}
	if at.Sub(r.returned) > rivalry {
		r.returns, r.pause = 0, 0
	}
	for p, last := range r.before {
		if at.Sub(last) > rivalry {
			delete(r.before, p)
		}
	}
	_, again := r.before[process]
	if r.now != "" {
		if r.before == nil {
			r.before = map[string]time.Time{}
		}
		r.before[r.now] = at
	}
	r.now = process
	if !again {
		return 0
	}
	r.returned = at
	if r.returns++; r.returns < maxReturns {
		return 0
	}
	r.pause = min(max(minRivalPause, 2*r.pause), maxRivalPause)
	return r.pause
}
