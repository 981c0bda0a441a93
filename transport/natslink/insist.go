package natslink

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bounds of one request to the server in this process, whose response is lost if the
// connection breaks meanwhile. Servers elsewhere have their own: see cluster.
const (
	requestPatience = 5 * time.Second
	requestAttempts = 5
	startPatience   = time.Minute // where it has just started
)

// call has the server do something with the stream, which is not put in. It does not while
// streams are closed and opened.
func (s *stream) call(ctx context.Context, f func(context.Context) error) error {
	return s.callFor(ctx, s.vault.patience, f)
}

// callFor is call with a server that may take so long to answer.
func (s *stream) callFor(ctx context.Context, patience time.Duration, f func(context.Context) error) error {
	ctx, done := s.vault.store.bind(ctx)
	defer done()
	s.vault.gate.RLock()
	defer s.vault.gate.RUnlock()
	return s.patiently(ctx, patience, f)
}

// patiently calls f, and again if it takes too long, or if the replicas of the stream choose a leader. A
// server that does not answer may be in trouble.
func (s *stream) patiently(ctx context.Context, patience time.Duration, f func(context.Context) error) error {
	until := time.Now().Add(election)
	for attempt := 1; ; attempt++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		bounded, cancel := context.WithTimeout(ctx, patience)
		err := f(bounded)
		late := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			return nil
		case late && attempt < s.vault.attempts:
		case !late && time.Now().Before(until) && s.leaderless(ctx, err, attempt):
		default:
			return cause(ctx, err)
		}
		s.vault.suspect()
	}
}

// leaderless reports whether an attempt has failed because the replicas of the stream, or of all that
// is known of streams, have no leader now, as when its server has gone. It waits then: they choose
// another. A stream that is gone looks the same, so that it is asked for now and then.
func (s *stream) leaderless(ctx context.Context, err error, attempt int) bool {
	if !electing(err) || s.here() || attempt%lookForIt == 0 && s.vanished(ctx) {
		return false
	}
	return sleep(ctx, electionPause) == nil
}

// electing reports whether servers that choose a leader may have given an error.
func electing(err error) bool {
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return false
	}
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.As(err, &api) && !isFull(api.ErrorCode) && (api.Code == http.StatusServiceUnavailable || api.ErrorCode == errCodeInProcess)
}

// errCodeInProcess is JetStream's code for a message that was sent before, and is being stored.
const errCodeInProcess = 10158

// vanished reports whether it is known that there is no such stream.
func (s *stream) vanished(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*s.vault.patience) // those without a leader say so late
	defer cancel()
	_, err := s.js.Stream(ctx, s.name)
	return errors.Is(err, jetstream.ErrStreamNotFound)
}

// Bounds of waiting for a leader, beside what the client waits by itself. Who does not wait for as long as
// servers need, 4 to 9 seconds and a little, fails and tries again after a pause that grows: a leader that
// is there would not be noticed for seconds.
const (
	election      = 12 * time.Second
	electionPause = 100 * time.Millisecond
	lookForIt     = 4 // attempts
)

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
