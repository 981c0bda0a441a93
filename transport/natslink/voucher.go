package natslink

import (
	"sync"
	"time"
)

// A voucher knows whether the ask that this side has open waits at the peer. The peer says so in each
// ask of its own; so one side need not ask again with each heartbeat to be told that the other is there,
// if the other does.
//
// It is not believed for long. Once the peer does not ask any more, since its disk is slow or it is
// gone, this side asks it with each heartbeat, as if it had never vouched, and first for an answer that
// comes before the peer would count as gone; likewise if it asks and says nothing of our ask, which then
// was lost.
type voucher struct {
	mu     sync.Mutex
	number uint64    // of the open ask; 0 if there is none, or it has none
	long   bool      // it waits for longer than a heartbeat
	last   time.Time // when the peer vouched for it, or it was said
	good   bool      // the peer vouches
	hasty  bool      // it did until now, and is to say soon that it is there
}

// asks takes in what was asked, the zero ask when that is over.
func (v *voucher) asks(a ask, hold time.Duration, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.number, v.long, v.last = a.number(), time.Duration(a.Hold)*time.Millisecond > hold, at
}

// vouch takes in which ask the peer says that it has, and reports whether it is the open one.
func (v *voucher) vouch(number uint64, at time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if number == 0 || number != v.number {
		return false
	}
	v.last, v.good, v.hasty = at, true, false
	return true
}

// hold returns for how long the next ask is to wait: for trust if the peer vouches for it.
func (v *voucher) hold(heartbeat, trust time.Duration) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.good:
		return trust
	case v.hasty:
		v.hasty = false
		return heartbeat / 4
	}
	return heartbeat
}

// doubted reports whether the open ask is to be said anew, since the peer has not vouched for it within
// a heartbeat and a little more.
func (v *voucher) doubted(heartbeat time.Duration, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.long || v.number == 0 || now.Sub(v.last) <= heartbeat*5/4 {
		return false
	}
	v.good, v.hasty, v.number = false, true, 0
	return true
}
