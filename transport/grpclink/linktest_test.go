package grpclink

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

var adapter = linktest.Adapter{
	New:    func(t *testing.T) linktest.Network { return newNetwork(t) },
	Traits: linktest.Traits{Kept: map[linktest.Store]bool{linktest.AgentCopy: true}},
	Within: linktest.Plainly,
}

// TestLink runs the suite of every transport.
func TestLink(t *testing.T) { linktest.Run(t, adapter) }

// TestConns runs the suite of every net.Conn.
func TestConns(t *testing.T) { linktest.RunConns(t, adapter) }

// A network is a principal and its agents over real TLS and TCP.
type network struct {
	pki   testPKI
	stop  func()
	lines map[string]*netfault.Line
	dirs  map[string]string

	mu   sync.Mutex
	addr string // of the hub; "" while there is none
}

func newNetwork(t *testing.T) *network {
	return &network{pki: newPKI(t), lines: map[string]*netfault.Line{}, dirs: map[string]string{}}
}

func (n *network) address() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

func (n *network) setAddress(a string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addr = a
}

func (n *network) StartHub(t testing.TB) transport.Hub {
	h, stop := startHub(t, hubConfig(t, n.pki))
	n.stop = stop
	n.setAddress(addr(t, h))
	return h
}

func (n *network) StopHub(testing.TB) {
	n.setAddress("")
	n.stop()
}

func (n *network) line(t testing.TB, agent string) *netfault.Line {
	if n.lines[agent] == nil {
		l, err := netfault.Listen(n.address)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		n.lines[agent], n.dirs[agent] = l, t.TempDir()
	}
	return n.lines[agent]
}

func (n *network) StartAgent(t testing.TB, agent string) transport.Dialer {
	c := dialerConfig(t, n.pki, agent, n.line(t, agent).Addr())
	c.StateDir = n.dirs[agent]
	d, err := NewDialer(c)
	require.NoError(t, err)
	return d
}

func (n *network) Fault(t testing.TB, agent string, f linktest.Fault) {
	n.line(t, agent).Set(map[linktest.Fault]netfault.Fault{
		linktest.Healthy: netfault.Healthy, linktest.Cut: netfault.Cut,
		linktest.BlackHole: netfault.BlackHole, linktest.Slow: netfault.Slow,
	}[f])
}

func (n *network) Wipe(t testing.TB, agent string, s linktest.Store) {
	require.Equal(t, linktest.AgentCopy, s, "only this is kept")
	require.NoError(t, os.Remove(filepath.Join(n.dirs[agent], copyFile)))
}
