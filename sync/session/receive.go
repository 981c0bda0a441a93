package session

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// receive shows the link to the Engine.
func (s *Session) receive(ctx context.Context) error {
	r := receiver{s: s, kept: deliveries{}, sealed: deliveries{}, foreign: map[string]uint64{}}
	return s.retry(ctx, "receive", func(ctx context.Context) error {
		// Nothing may come for days: then not failing for long is success.
		quiet := time.AfterFunc(lastPause, func() { s.health.note("receive", "", nil) })
		defer quiet.Stop()
		for {
			d, err := s.cfg.Link.Receive(ctx)
			if err != nil {
				return err
			}
			s.health.note("receive", "", nil)
			if d.Event == transport.Value {
				s.counts.took(d.Message)
			}
			if err := r.take(ctx, d); err != nil {
				return err
			}
		}
	})
}

// A receiver takes in what a link delivers.
type receiver struct {
	s       *Session
	met     bool       // the peer's process that was there last speaks a protocol version of ours
	refused bool       // it speaks none
	kept    deliveries // what waits until it is met
	keyAt   uint64     // the place of the peer's key in the copy
	sealed  deliveries // what was sealed with it, and came before it
	// foreign has the keys of messages that were left aside since the peer was heard last, and
	// their places in the copy.
	foreign map[string]uint64
	whole   bool // the copy that the link keeps has been gone through
}

// deliveries are the last of each key.
type deliveries map[string]transport.Delivery

func (l deliveries) keep(d transport.Delivery) {
	if d.At >= l[d.Message.Key].At {
		l[d.Message.Key] = d
	}
}

// take returns all, the oldest first, and keeps none.
func (l deliveries) take() []transport.Delivery {
	all := slices.SortedFunc(maps.Values(l), func(a, b transport.Delivery) int { return cmp.Compare(a.At, b.At) })
	clear(l)
	return all
}

func (r *receiver) take(ctx context.Context, d transport.Delivery) error {
	switch d.Event {
	case transport.Value:
		if r.refused {
			r.kept.keep(d)
			return nil
		}
		return r.value(ctx, d)
	case transport.Replayed:
		r.whole = true
		r.s.opener.copyReplayed()
	case transport.LogLost:
		r.s.cfg.Log.Info("log was lost: it is written again", zap.String("peer", r.s.cfg.Link.Peer()))
		r.s.opener.reopen()
	case transport.Up:
		return r.up(ctx, d.Presence)
	case transport.Down:
		r.s.health.down()
		return r.s.put(ctx, engine.Presence{}, nil)
	}
	return nil
}

// value gives a message to the Engine, and acks it after that. What the Engine knows it
// keeps no longer than this process: but a link that keeps a copy gives it again to the
// next one, and where none is kept the peer's Manifest shows what is missing.
func (r *receiver) value(ctx context.Context, d transport.Delivery) error {
	m, err := r.s.cfg.Protocol.Decode(d.Message, r.s.pair.Load())
	switch peer, is := m.Body.(engine.Seal); {
	case errors.Is(err, transport.ErrVersion):
		return r.another(ctx, d, err)
	case errors.Is(err, wire.ErrKey):
		r.sealed.keep(d)
		return nil
	case err != nil:
		return r.unreadable(ctx, d, err)
	case is:
		return r.meet(ctx, d, peer)
	}
	return r.s.give(ctx, input{event: engine.Received{At: d.At, Message: m}, then: d.Ack, heard: r.heard(d.Message, m)})
}

// another looks at a message in a version that we do not read. Its writer has yet to hear what
// we are, and writes it again then: it is left aside until it comes like that once more. It is
// not acked: who reads that version may come. A tombstone, which is not written again, waits
// only until we know that the writer is one whom we understand: it says the same in all versions.
func (r *receiver) another(ctx context.Context, d transport.Delivery, why error) error {
	k, err := wire.Key(d.Message.Key)
	at, again := r.foreign[d.Message.Key]
	switch {
	case err == nil && engine.Reserved(k):
		return nil
	case d.Message.Tombstone() && !r.met:
		r.kept.keep(d)
		return nil
	case d.Message.Tombstone(), again && d.At > at:
		return r.unreadable(ctx, d, why)
	}
	r.foreign[d.Message.Key] = d.At
	return nil
}

// up takes note of the peer's process, and takes in what was kept for the time when it
// would be understood.
func (r *receiver) up(ctx context.Context, p transport.Presence) error {
	reopen, err := r.s.speech.agree(p, r.s.cfg.Engine.Self, r.s.cfg.Link.Peer())
	r.met, r.refused = err == nil, err != nil
	r.s.health.up(p, err)
	r.s.counts.meets(err)
	if clear(r.foreign); reopen {
		r.s.opener.reopen()
	}
	if err := r.s.put(ctx, engine.Presence{Peer: !r.refused}, nil); err != nil || r.refused {
		return err
	}
	return r.values(ctx, r.kept.take())
}

func (r *receiver) values(ctx context.Context, all []transport.Delivery) error {
	for _, d := range all {
		if err := r.value(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// meet takes in the peer's key, and then what waited for it.
func (r *receiver) meet(ctx context.Context, d transport.Delivery, peer engine.Seal) error {
	if d.At <= r.keyAt || r.s.cfg.Engine.Public == "" {
		d.Ack()
		return nil
	}
	pair, err := seal.Between(r.s.cfg.Key, seal.Public(peer.Public))
	if err != nil {
		return r.unreadable(ctx, d, err)
	}
	r.keyAt = d.At
	r.s.pair.Store(pair)
	if err := r.s.put(ctx, engine.Keyed{Seal: peer, Key: pair.Digest()}, d.Ack); err != nil {
		return err
	}
	return r.values(ctx, r.sealed.take())
}

// unreadable gives the Engine what there is to know of a message that cannot be read, and
// writes a letter about it. All else goes on.
func (r *receiver) unreadable(ctx context.Context, d transport.Delivery, why error) error {
	m, ok := wire.Unreadable(d.Message, why)
	if !ok {
		r.s.letters.stray(ctx, d.Message, why)
		d.Ack()
		return nil
	}
	return r.s.give(ctx, input{event: engine.Received{At: d.At, Message: m}, then: d.Ack, raw: &d.Message, heard: r.heard(d.Message, m)})
}
