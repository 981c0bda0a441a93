package tlstest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// Lines are the lines of a linktest.Network between a principal and its agents. The zero Lines
// are none.
type Lines struct {
	lines map[string]*netfault.Line // by agent

	mu   sync.Mutex
	addr string // of the principal; "" while there is none
}

// Listen says where the principal listens from now on, "" nowhere.
func (n *Lines) Listen(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addr = address
}

func (n *Lines) address() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

// Line returns the line of an agent, which is there until the test ends.
func (n *Lines) Line(t testing.TB, agent string) *netfault.Line {
	if n.lines == nil {
		n.lines = map[string]*netfault.Line{}
	}
	if n.lines[agent] == nil {
		l, err := netfault.Listen(n.address)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		n.lines[agent] = l
	}
	return n.lines[agent]
}

// Fault implements linktest.Network.
func (n *Lines) Fault(t testing.TB, agent string, f linktest.Fault) {
	n.Line(t, agent).Set(map[linktest.Fault]netfault.Fault{
		linktest.Healthy: netfault.Healthy, linktest.Cut: netfault.Cut,
		linktest.BlackHole: netfault.BlackHole, linktest.Slow: netfault.Slow,
	}[f])
}
