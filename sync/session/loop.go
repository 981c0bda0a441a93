package session

import (
	"context"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// An input is an event for the Engine, and what to do once it has been taken in.
type input struct {
	event engine.Event
	then  func()             // must not wait; may be nil
	raw   *transport.Message // of a Received that could not be read
	at    time.Time          // when it was seen; zero is now
	heard *trail.Heard       // of a Received, if there is a Witness
}

// put hands an event to the loop, and returns once the loop has it.
func (s *Session) put(ctx context.Context, ev engine.Event, then func()) error {
	return s.give(ctx, input{event: ev, then: then, at: time.Now()})
}

// give is put for an input.
func (s *Session) give(ctx context.Context, i input) error {
	select {
	case s.inputs <- i:
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
		s.listen(eng, i)
		for _, a := range eng.Step(now, i.event) {
			s.begin(ctx, a, i, now)
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

// A task is what is to be done to an object, and when what it is done for was seen; zero if that
// was not now.
type task struct {
	act  engine.Action
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

// begin has an action carried out that was decided because of an input.
func (s *Session) begin(ctx context.Context, a engine.Action, because input, now time.Time) {
	switch a := a.(type) {
	case engine.Send:
		s.outbox.put(ctx, a.Message.Key, s.outgoing(a.Message, because, now))
	case engine.Write:
		s.ready.put(ctx, a.Object.Key, task{a, began(because.event, now)})
	case engine.Remove:
		s.ready.put(ctx, a.Key, task{a, began(because.event, now)})
	}
}
