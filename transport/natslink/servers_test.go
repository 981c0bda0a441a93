package natslink

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// TestAnswersAreAskedForAgain: of a cluster without a leader some asks are answered by nobody, and some by
// that there is none. Neither keeps who starts with it from going on once there is one.
func TestAnswersAreAskedForAgain(t *testing.T) {
	other := errors.New("other")
	silence := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	says := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	unavailable := says(&jetstream.APIError{Code: 503, ErrorCode: 10008})
	full := &jetstream.APIError{Code: 503, ErrorCode: 10023}
	for name, c := range map[string]struct {
		answers []func(context.Context) error // the last for ever
		want    error
		asks    int
		within  time.Duration
	}{
		"at once":           {[]func(context.Context) error{says(nil)}, nil, 1, 0},
		"the first is lost": {[]func(context.Context) error{silence, says(nil)}, nil, 2, storeAnswer + time.Second},
		"no leader yet":     {[]func(context.Context) error{says(nats.ErrNoResponders), unavailable, says(nats.ErrTimeout), says(nil)}, nil, 4, 2 * time.Second},
		"an answer":         {[]func(context.Context) error{silence, says(other)}, other, 2, storeAnswer + time.Second},
		"no streams":        {[]func(context.Context) error{says(jetstream.ErrJetStreamNotEnabledForAccount)}, jetstream.ErrJetStreamNotEnabledForAccount, 1, 0},
		"no room":           {[]func(context.Context) error{says(full)}, full, 1, 0},
		"never":             {[]func(context.Context) error{silence}, context.DeadlineExceeded, 9, connectPatience + storeAnswer + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asks, began := 0, time.Now()
				err := untilAnswered(t.Context(), func(ctx context.Context) error {
					asks++
					return c.answers[min(asks, len(c.answers))-1](ctx)
				})
				require.ErrorIs(t, err, c.want)
				require.Equal(t, c.asks, asks)
				require.LessOrEqual(t, time.Since(began), c.within)
			})
		})
	}
}

func TestNobodyIsAskedWhenItEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	asks := 0
	require.Error(t, untilAnswered(ctx, func(ctx context.Context) error { asks++; return ctx.Err() }))
	require.LessOrEqual(t, asks, 1)
}
