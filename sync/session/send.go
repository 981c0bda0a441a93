package session

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// numbered returns ids that begin alike: a text that is random as a whole would be half of what says
// that the health of an object is another, on links that say what has changed.
func numbered(prefix string) func() string {
	var n atomic.Uint64
	return func() string { return prefix + "-" + strconv.FormatUint(n.Add(1), 36) }
}

// senders is how many messages are put into the log at once. Those of one key never are.
const senders = 16

// send puts a message into the link's log, or tells the Engine that it may not be there.
// The Engine sends it again, at a Tick.
func (s *Session) send(ctx context.Context, o outgoing) {
	m, trace := o.Message, s.sending(o)
	e, err := wire.Encode(m, wire.Envelope{
		ID: s.cfg.NewID(), Source: s.cfg.Engine.Self, Time: time.Now(), Traceparent: trace, Pair: s.pair.Load(), Version: s.speech.writing(),
	})
	never := err != nil
	if err == nil {
		s.remember(e)
		err = s.cfg.Link.Send(ctx, e)
		never = errors.Is(err, transport.ErrTooLarge)
	}
	if ctx.Err() != nil {
		return
	}
	s.sent(o, resource.Digest(e.Digest), trace, err)
	switch {
	case errors.Is(err, wire.ErrKey): // the peer's key has changed since: the Engine is about to hear of it
		never = false
	case never:
		s.cfg.Log.Warn("message cannot be sent", zap.Stringer("key", m.Key), zap.Error(err))
		s.health.note("send", m.Key.String(), nil) // the Engine does not try again
	case err != nil || s.health.fails("send"):
		s.health.note("send", m.Key.String(), err)
	}
	if err != nil {
		s.counts.unsent.Add(1)
		unsent := engine.Unsent{Key: m.Key, Digest: m.Body.Digest(), Never: never, Text: plain(err)}
		s.put(ctx, unsent, nil) // it fails only when the session ends
		return
	}
	s.counts.put(e)
	s.cfg.Paces.Send.note(o.began)
}
