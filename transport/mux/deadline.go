package mux

import (
	"sync"
	"time"
)

// A deadline is a time that can be moved, and awaited.
type deadline struct {
	mu     sync.Mutex
	passed chan struct{} // closed once it has
	timer  *time.Timer   // closes passed; nil if there is none or it has
}

// wait returns what is closed once the deadline has passed, unless it was moved before.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.channel()
}

func (d *deadline) channel() chan struct{} {
	if d.passed == nil {
		d.passed = make(chan struct{})
	}
	return d.passed
}

// expired reports whether the deadline has passed.
func (d *deadline) expired() bool {
	select {
	case <-d.wait():
		return true
	default:
		return false
	}
}

// set moves the deadline to t; the zero time is never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	passed := d.channel()
	select {
	case <-passed:
		d.passed = nil
		passed = d.channel()
	default:
	}
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		close(passed)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.timer == timer { // it was not moved meanwhile
			d.timer = nil
			close(passed)
		}
	})
	d.timer = timer
}
