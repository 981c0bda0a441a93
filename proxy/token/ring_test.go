package token_test

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/proxy/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A kept is where keys are kept.
type kept struct{ is atomic.Pointer[result] }

type result struct {
	text []byte
	err  error
}

func (k *kept) put(text []byte, err error) { k.is.Store(&result{text, err}) }

func (k *kept) read(context.Context) ([]byte, error) {
	r := k.is.Load()
	return r.text, r.err
}

// Keys are replaced while they are in use. What cannot be used is not taken; what is taken away
// is gone.
func TestKeysAreReplacedWhileInUse(t *testing.T) {
	before, after := fresh(t, token.Ed25519), fresh(t, token.ECDSA)
	synctest.Test(t, func(t *testing.T) {
		core, told := observer.New(zap.InfoLevel)
		var where kept
		where.put(nil, fs.ErrNotExist)
		ring, err := token.NewRing(token.RingConfig{Read: where.read, Every: time.Second, Log: zap.New(core)})
		require.NoError(t, err)
		_, err = ring.Verify("", now)
		require.ErrorIs(t, err, token.ErrNoKey)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- ring.Run(ctx) }()
		look := func() { time.Sleep(time.Second); synctest.Wait() }
		look()
		require.Zero(t, told.Len(), "none is nothing to be told of where there was none")

		where.put(before, nil)
		look()
		old, err := ring.Keys().Issue("edge-1", now)
		require.NoError(t, err)
		where.put([]byte("half a ke"), nil)
		for range 5 {
			look()
		}
		where.put(nil, errors.New("the API server is away"))
		look()
		_, err = ring.Verify(old, now)
		require.NoError(t, err)
		require.Equal(t, 1, told.FilterLevelExact(zap.WarnLevel).Len(), "it is told once: %v", told.All())

		where.put(append(append([]byte{}, after...), before...), nil)
		look()
		_, err = ring.Verify(old, now)
		require.NoError(t, err)
		require.False(t, ring.Keys().Current(old, "edge-1", now))

		where.put(after, nil)
		look()
		_, err = ring.Verify(old, now)
		require.ErrorIs(t, err, token.ErrInvalid)

		where.put(nil, fs.ErrNotExist)
		look()
		_, err = ring.Verify(old, now)
		require.ErrorIs(t, err, token.ErrNoKey)
		require.Equal(t, 1, told.FilterMessageSnippet("is gone").Len())
		look()
		require.Equal(t, 1, told.FilterMessageSnippet("is gone").Len())
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestRingNeedsAll(t *testing.T) {
	read := func(context.Context) ([]byte, error) { return nil, nil }
	for _, c := range []token.RingConfig{
		{Every: time.Second, Log: zap.NewNop()},
		{Read: read, Log: zap.NewNop()},
		{Read: read, Every: time.Second},
	} {
		_, err := token.NewRing(c)
		require.Error(t, err)
	}
}
