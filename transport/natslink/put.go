package natslink

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// put implements logShelf.
func (s *stream) put(ctx context.Context, sender string, m *nats.Msg) error {
	if err := s.room(len(m.Data)); err != nil {
		return err
	}
	s.remake.RLock()
	defer s.remake.RUnlock()
	epoch := s.end().Epoch
	options := append(s.ttl(m), jetstream.WithMsgID(s.id(sender)), jetstream.WithExpectStream(s.name))
	ctx, done := s.cond.bind(ctx)
	defer done()
	var ack *jetstream.PubAck
	err := storeError(s.patiently(ctx, s.vault.patience, func(ctx context.Context) (err error) {
		ack, err = s.js.PublishMsg(ctx, m, options...) // its id makes another attempt harmless
		return err
	}))
	s.took(m.Size(), err)
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w: %w", errNoStream, err)
	}
	if err != nil {
		return err
	}
	s.tail.add(epoch, row{ack.Sequence, strings.TrimPrefix(m.Subject, s.prefix), kept(m.Header), m.Data})
	s.advance(epoch, ack.Sequence)
	return nil
}

// had implements logShelf.
func (s *stream) had(upto position) { s.tail.had(upto) }

// held implements logShelf.
func (s *stream) held(ctx context.Context, f func(row) error) (transport.Log, error) {
	s.remake.RLock()
	defer s.remake.RUnlock()
	return transport.Log{Epoch: s.end().Epoch, Keeps: true}, each(ctx, s, 1, f)
}

// extend implements copyShelf.
func (s *stream) extend(ctx context.Context, all []*nats.Msg, stored func(i int, seq uint64) error) error {
	good := s.cond.good()
	for _, c := range []context.Context{ctx, good} {
		if c.Err() != nil {
			return context.Cause(c)
		}
	}
	size := 0
	for _, m := range all {
		size += m.Size()
	}
	if err := s.room(size); err != nil {
		return fmt.Errorf("natslink: store in %s: %w", s.name, err)
	}
	epoch, acks, err := s.publish(all)
	if err != nil {
		return err
	}
	for i, ack := range acks {
		seq, err := s.acked(ctx, good, ack)
		if err != nil {
			return err
		}
		s.advance(epoch, seq)
		if err := stored(i, seq); err != nil {
			return err
		}
	}
	return nil
}

// publish has the server store all, and does not wait for it.
func (s *stream) publish(all []*nats.Msg) (epoch string, acks []jetstream.PubAckFuture, err error) {
	end := s.end()
	acks = make([]jetstream.PubAckFuture, 0, len(all))
	for i, m := range all {
		options := append(s.ttl(m), jetstream.WithExpectLastSequence(end.Seq+uint64(i)))
		ack, err := s.js.PublishMsgAsync(m, options...)
		if err != nil {
			return "", nil, fmt.Errorf("natslink: store %s: %w", m.Subject, storeError(err))
		}
		acks = append(acks, ack)
	}
	return end.Epoch, acks, nil
}

// acked waits until one is stored, while the stream is good, and returns its place.
func (s *stream) acked(ctx, good context.Context, one jetstream.PubAckFuture) (uint64, error) {
	size := one.Msg().Size()
	select {
	case ack := <-one.Ok():
		s.took(size, nil)
		return ack.Sequence, nil
	case err := <-one.Err():
		err = storeError(err)
		s.took(size, err)
		if errors.Is(err, jetstream.ErrAsyncPublishTimeout) {
			s.vault.suspect()
		}
		return 0, fmt.Errorf("natslink: store %s: %w", one.Msg().Subject, err)
	case <-good.Done():
		return 0, context.Cause(good)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// whole implements copyShelf.
func (s *stream) whole(ctx context.Context) (bool, error) { return s.intact(ctx, s.end()) }

// recover implements copyShelf.
func (s *stream) recover(ctx context.Context) (lost bool, err error) {
	if lost, err = s.check(ctx); err != nil {
		return false, err
	}
	return lost, s.refresh(ctx)
}

// usable implements shelf.
func (s *stream) usable() error { return s.cond.usable() }

// kicked implements shelf.
func (s *stream) kicked() <-chan struct{} { return s.kick }
