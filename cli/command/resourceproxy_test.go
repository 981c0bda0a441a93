package command

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/proxy/token"
)

// held are keys of tokens.
type held struct{ keys atomic.Pointer[token.Keys] }

func (h *held) Keys() token.Keys { return *h.keys.Load() }

// Callers are looked at anew within a second of what they may have been let in by.
func TestCallersAreLookedAtAnew(t *testing.T) {
	text, err := token.NewKey(token.Ed25519, 0)
	require.NoError(t, err)
	keys, err := token.ParseKeys(text)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ring, looked, over := &held{}, make(chan struct{}, 10), make(chan error, 1)
		ring.keys.Store(&keys)
		blocked := make(chan struct{})
		changes := make(chan (<-chan struct{}), 2)
		changes <- blocked
		changes <- make(chan struct{})
		go func() {
			over <- patrol(ctx, func() <-chan struct{} { return <-changes }, ring, func() { looked <- struct{}{} })
		}()
		<-time.After(time.Minute)
		synctest.Wait()
		require.Empty(t, looked)
		close(blocked)
		<-looked
		began := time.Now()
		ring.keys.Store(new(token.Keys))
		<-looked
		require.LessOrEqual(t, time.Since(began), time.Second)
		stop()
		require.ErrorIs(t, <-over, context.Canceled)
	})
}
