package proxy_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/proxy"
)

// A flaky listener gives errors and connections as they are put there.
type flaky struct {
	*proxy.Door
	fails chan error
}

func (f flaky) Accept() (net.Conn, error) {
	select {
	case err := <-f.fails:
		return nil, err
	default:
		return f.Door.Accept()
	}
}

// A failure to accept passes, the listener's end does not, and whoever is served is waited for.
func TestAcceptGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flaky{proxy.NewDoor(), make(chan error, 2)}
		f.fails <- errors.New("too many open files")
		f.fails <- errors.New("too many open files")
		ctx, stop := context.WithCancel(t.Context())
		ended, served := make(chan error, 1), false
		go func() {
			ended <- proxy.Accept(ctx, f, func(ctx context.Context, c net.Conn) { <-ctx.Done(); served = c.Close() == nil })
		}()
		near, far := net.Pipe()
		defer near.Close()
		f.Put(ctx, far)
		synctest.Wait()
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.True(t, served)

		f = flaky{proxy.NewDoor(), nil}
		require.NoError(t, f.Close())
		require.ErrorIs(t, proxy.Accept(t.Context(), f, nil), net.ErrClosed)
	})
}
