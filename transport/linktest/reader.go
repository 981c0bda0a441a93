package linktest

import (
	"context"
	"fmt"
	"sync"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A Reader receives from a Link, collects what it gets in a Seen, and checks that the
// order of deliveries is what package transport promises.
type Reader struct {
	changed chan struct{} // holds one element once Seen has changed or the reader has ended
	ended   chan struct{} // closed with it
	mu      sync.Mutex
	seen    Seen
	err     error // why it ended, or the promise that was broken
}

// A Seen is what a Reader has received.
type Seen struct {
	Values   map[string]Value // the newest of each key, tombstones included
	Given    int              // deliveries of values
	Places   int              // values that were not repetitions: each has a place of its own
	Replayed bool
	Kept     int                 // Places at Replayed
	Peer     *transport.Presence // of the peer while it is up
	Ups      int                 // how often it came up
	Lost     int                 // how often the log was lost
	Unacked  []func()            // the acks of a Reader that does not ack
}

// A Value is a Message and its place in the copy.
type Value struct {
	Message transport.Message
	At      uint64
}

// Read receives from l until it is closed or ctx is done. Values are acked if ack is set.
func Read(ctx context.Context, l transport.Link, ack bool) *Reader {
	r := &Reader{
		changed: make(chan struct{}, 1),
		ended:   make(chan struct{}),
		seen:    Seen{Values: map[string]Value{}},
	}
	go func() {
		defer close(r.ended)
		defer r.wake()
		for {
			d, err := l.Receive(ctx)
			if !r.take(d, err, ack) {
				return
			}
		}
	}()
	return r
}

// Wait waits until ok says so of what r has seen. It returns an error if ctx is done or r
// ends before, or if a promise was broken. One goroutine at a time may wait; ok must not
// keep what it is given.
func (r *Reader) Wait(ctx context.Context, ok func(*Seen) bool) error {
	for {
		r.mu.Lock()
		met, err := ok(&r.seen), r.err
		r.mu.Unlock()
		if met {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Look calls f with what r has seen.
func (r *Reader) Look(f func(*Seen)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.seen)
}

// End waits until r has ended, and returns why.
func (r *Reader) End() error {
	<-r.ended
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Reader) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// take takes in what Receive returned, and reports whether to go on.
func (r *Reader) take(d transport.Delivery, err error, ack bool) bool {
	defer r.wake()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		err = r.seen.add(d)
	}
	if err != nil {
		r.err = err
		return false
	}
	switch {
	case d.Event != transport.Value:
	case ack:
		d.Ack()
	default:
		r.seen.Unacked = append(r.seen.Unacked, d.Ack)
	}
	return true
}

// add adds d, unless it breaks a promise.
func (s *Seen) add(d transport.Delivery) error {
	if d.Event != transport.Value && d.Event != transport.Replayed && !s.Replayed {
		return fmt.Errorf("%s came before replayed", d.Event)
	}
	switch d.Event {
	case transport.Value:
		return s.value(d)
	case transport.Replayed:
		if s.Replayed {
			return fmt.Errorf("replayed came twice")
		}
		s.Replayed, s.Kept = true, s.Places
	case transport.LogLost:
		s.Lost++
	case transport.Up:
		if s.Peer != nil {
			return fmt.Errorf("up came twice: process %s, then %s", s.Peer.Process, d.Presence.Process)
		}
		s.Peer = &d.Presence
		s.Ups++
	case transport.Down:
		if s.Peer == nil {
			return fmt.Errorf("down came without up")
		}
		s.Peer = nil
	default:
		return fmt.Errorf("delivery of unknown kind %d", d.Event)
	}
	return nil
}

// value adds a value. Its place must tell how new it is.
func (s *Seen) value(d transport.Delivery) error {
	if d.Ack == nil {
		return fmt.Errorf("value of %q has no ack", d.Message.Key)
	}
	s.Given++
	key, n := d.Message.Key, count(d.Message)
	last, known := s.Values[key]
	had := count(last.Message)
	switch {
	case !known, d.At > last.At && n >= had:
		s.Places++
		s.Values[key] = Value{d.Message, d.At}
	case d.At == last.At && n == had, d.At < last.At && n <= had:
		// A repetition.
	default:
		return fmt.Errorf("%q: number %d at place %d came after number %d at place %d", key, n, d.At, had, last.At)
	}
	return nil
}
