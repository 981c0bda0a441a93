package session

import (
	"errors"
	"time"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// What the Witness is told, if there is one. Whatever it is told of has been decided without
// it.

// An outgoing is a message on its way into the log.
type outgoing struct {
	engine.Message
	began      time.Time // see task
	seen, said time.Time
	again      bool
	follows    bool
}

// outgoing returns a message that was decided because of an input. What says something new of
// an object is decided when that itself is looked at.
func (s *Session) outgoing(m engine.Message, because input, now time.Time) outgoing {
	k, ok := about(because.event)
	o := outgoing{Message: m, began: began(because.event, now), seen: now, said: now, again: !ok || k != m.Key}
	switch because.event.(type) {
	case engine.Unsent, engine.Retry:
		o.again = true
	case engine.Wrote:
		o.follows = true
	}
	if !o.again && !because.at.IsZero() {
		o.seen = because.at
	}
	return o
}

func (s *Session) witnessed(k resource.Key) bool { return s.cfg.Witness != nil && !engine.Reserved(k) }

func (s *Session) owned(k resource.Key) bool {
	return s.cfg.Engine.Rules.Owns(s.cfg.Engine.Side, k.Kind, resource.Spec)
}

// sending returns the trace context that is to go with a message.
func (s *Session) sending(o outgoing) (trace string) {
	if !s.witnessed(o.Key) {
		return ""
	}
	return s.cfg.Witness.Sending(s.about(o))
}

func (s *Session) about(o outgoing) trail.Sent {
	return trail.Sent{Key: o.Key, Owned: s.owned(o.Key), Row: o.Body, Seen: o.seen, Said: o.said, Again: o.again, Follows: o.follows}
}

// sent tells that a message is in the log, or why it is not.
func (s *Session) sent(o outgoing, digest resource.Digest, trace string, err error) {
	if !s.witnessed(o.Key) {
		return
	}
	t := s.about(o)
	t.Digest, t.Done, t.Trace, t.Err = digest, time.Now(), trace, err
	s.cfg.Witness.Sent(t)
}

// heard returns what is to be told of a message that has come; nil if nobody is.
func (r *receiver) heard(t transport.Message, m engine.Message) *trail.Heard {
	if !r.s.witnessed(m.Key) {
		return nil
	}
	written, trace := wire.Posted(t)
	return &trail.Heard{
		Key: m.Key, Owned: r.s.owned(m.Key), Row: m.Body, Digest: resource.Digest(t.Digest), Written: written, At: time.Now(),
		Kept: !r.whole, Trace: trace,
	}
}

// listen tells of a message that the loop is about to take in.
func (s *Session) listen(eng *engine.Engine, i input) {
	if r, ok := i.event.(engine.Received); ok && i.heard != nil && eng.News(r) {
		s.cfg.Witness.Heard(*i.heard)
	}
}

// wrote tells how a write or a removal has ended.
func (s *Session) wrote(done engine.Wrote, removed bool, began time.Time, err error) {
	if s.cfg.Witness == nil {
		return
	}
	s.cfg.Witness.Wrote(trail.Wrote{
		Key: done.Key, Owned: s.owned(done.Key), Removed: removed, Began: began, Done: time.Now(),
		Outcome: done.Outcome, Overtaken: errors.Is(err, backend.ErrConflict), Text: done.Text,
	})
}
