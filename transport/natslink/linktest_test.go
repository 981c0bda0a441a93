package natslink

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

var adapter = linktest.Adapter{
	New: func(t *testing.T) linktest.Network { return newNetwork(t) },
	Traits: linktest.Traits{Kept: map[linktest.Store]bool{
		linktest.HubLog: true, linktest.AgentCopy: true, linktest.AgentLog: true, linktest.HubCopy: true,
	}},
	Within: linktest.Plainly,
}

func TestLink(t *testing.T) { linktest.Run(t, adapter) }

func TestConns(t *testing.T) { linktest.RunConns(t, adapter) }

// A network is a principal and its agents over real servers, TLS and TCP.
type network struct {
	pki    *testPKI
	hubDir string
	hub    *Hub
	stop   func()
	lines  map[string]*netfault.Line
	dirs   map[string]string
	leaves map[string]*Leaf

	mu   sync.Mutex
	addr string // of the hub; "" while there is none
}

func newNetwork(t *testing.T) *network {
	return &network{
		pki: newPKI(t), hubDir: t.TempDir(),
		lines: map[string]*netfault.Line{}, dirs: map[string]string{}, leaves: map[string]*Leaf{},
	}
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
	c := hubConfig(t, n.pki)
	c.StoreDir = n.hubDir
	n.hub, n.stop = startHub(t, c)
	n.setAddress(addr(t, n.hub))
	return n.hub
}

func (n *network) StopHub(testing.TB) {
	n.setAddress("")
	n.stop()
	n.hub = nil
}

// lineTo returns the address of a line to another, that of the one agent.
func (n *network) lineTo(t testing.TB, address string) string {
	n.lines, n.dirs, n.addr = map[string]*netfault.Line{}, map[string]string{}, address
	return n.line(t, "").Addr()
}

func (n *network) cut()  { n.lines[""].Set(netfault.Cut) }
func (n *network) heal() { n.lines[""].Set(netfault.Healthy) }

func (n *network) line(t testing.TB, agent string) *netfault.Line {
	if n.lines[agent] == nil {
		l, err := netfault.Listen(n.address)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		n.lines[agent] = l
		n.dirs[agent] = t.TempDir()
	}
	return n.lines[agent]
}

func (n *network) StartAgent(t testing.TB, agent string) transport.Dialer {
	line := n.line(t, agent)
	c := leafConfig(t, n.pki, agent, line.Addr())
	c.StoreDir = n.dirs[agent]
	l, err := NewLeaf(c)
	require.NoError(t, err)
	n.leaves[agent] = l
	return l
}

func (n *network) Fault(t testing.TB, agent string, f linktest.Fault) {
	n.line(t, agent).Set(map[linktest.Fault]netfault.Fault{
		linktest.Healthy: netfault.Healthy, linktest.Cut: netfault.Cut,
		linktest.BlackHole: netfault.BlackHole, linktest.Slow: netfault.Slow,
	}[f])
}

func (n *network) Wipe(t testing.TB, agent string, s linktest.Store) {
	name := names{agent}
	switch s {
	case linktest.HubLog:
		n.wipeHub(t, name.downLog())
	case linktest.HubCopy:
		n.wipeHub(t, name.upCopy())
	case linktest.AgentLog:
		n.wipeLeaf(t, agent, name.upLog())
	case linktest.AgentCopy:
		n.wipeLeaf(t, agent, name.downCopy())
	}
}

func (n *network) wipeHub(t testing.TB, stream string) {
	if n.hub != nil {
		require.NoError(t, n.hub.stores[0].DeleteStream(t.Context(), stream))
		return
	}
	wipeDir(t, n.hubDir, "HUB", stream)
}

func (n *network) wipeLeaf(t testing.TB, agent, stream string) {
	leaf := n.leaves[agent]
	leaf.mu.Lock()
	open := leaf.open
	leaf.mu.Unlock()
	if open != nil {
		js, err := jetstream.New(open.store)
		require.NoError(t, err)
		require.NoError(t, js.DeleteStream(t.Context(), stream))
		return
	}
	wipeDir(t, n.dirs[agent], "STORE", stream)
}

// wipeDir removes a stream from a disk.
func wipeDir(t testing.TB, dir, account, stream string) {
	path := filepath.Join(dir, "jetstream", account, "streams", stream)
	require.DirExists(t, path)
	require.NoError(t, os.RemoveAll(path))
}
