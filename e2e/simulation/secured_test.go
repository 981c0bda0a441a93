package simulation

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// secured is what networks over TLS have in common: their lines, and what each process is made of.
type secured struct {
	tlstest.Lines
	speeches
	dir  string
	ca   tlstest.Authority
	stop func()
}

func newSecured(t *testing.T, s speeches) secured {
	return secured{dir: t.TempDir(), ca: tlstest.NewAuthority(t), speeches: s}
}

// serve runs a hub, and leads the lines to it.
func (n *secured) serve(t testing.TB, h interface {
	transport.Hub
	Addr(context.Context) (string, error)
}) transport.Hub {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	n.stop = func() {
		cancel()
		require.NoError(t, <-ended)
	}
	addr, err := h.Addr(ctx)
	require.NoError(t, err)
	n.Listen(addr)
	return h
}

// StopHub implements linktest.Network.
func (n *secured) StopHub(testing.TB) {
	n.Listen("")
	n.stop()
}
