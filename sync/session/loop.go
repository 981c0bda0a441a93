package session

import (
	"context"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// An input is an event for the Engine, and what to do once it has been taken in.
type input struct {
	event engine.Event
	then  func()             // must not wait; may be nil
	raw   *transport.Message // of a Received that could not be read
}

// put hands an event to the loop, and returns once the loop has it.
func (s *Session) put(ctx context.Context, ev engine.Event, then func()) error {
	select {
	case s.inputs <- input{event: ev, then: then}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// loop owns the Engine: nothing else touches it, and nothing here waits for anything but
// the next input.
func (s *Session) loop(ctx context.Context) error {
	defer close(s.done)
	eng := engine.New(s.cfg.Engine)
	tick := time.NewTicker(s.cfg.Tick)
	defer tick.Stop()
	for {
		i := input{event: engine.Tick{}}
		select {
		case i = <-s.inputs:
		case <-tick.C:
		case look := <-s.inspect:
			look(eng)
			continue
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now := time.Now()
		for _, a := range eng.Step(now, i.event) {
			s.begin(ctx, a, began(i.event, now))
		}
		s.letters.look(ctx, eng, i)
		if s.cfg.Observe != nil {
			s.cfg.Observe(i.event, eng)
		}
		if i.then != nil {
			i.then()
		}
	}
}

// A task is what is to be done, and when what it is done for was seen; zero if that was not now.
type task[A any] struct {
	act  A
	seen time.Time
}

// began returns when what is done because of an event was seen: now, or zero where the event is
// the clock's, or the end of something else that was done.
func began(ev engine.Event, now time.Time) time.Time {
	switch ev.(type) {
	case engine.Changed, engine.Vanished, engine.Received:
		return now
	}
	return time.Time{}
}

// begin has an action carried out.
func (s *Session) begin(ctx context.Context, a engine.Action, seen time.Time) {
	switch a := a.(type) {
	case engine.Send:
		s.outbox.put(ctx, a.Message.Key, task[engine.Message]{a.Message, seen})
	case engine.Write:
		s.ready.put(ctx, a.Object.Key, task[engine.Action]{a, seen})
	case engine.Remove:
		s.ready.put(ctx, a.Key, task[engine.Action]{a, seen})
	}
}
