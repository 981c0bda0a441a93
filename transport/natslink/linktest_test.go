package natslink

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
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

// TestTrust runs the suite of every transport over TLS.
func TestTrust(t *testing.T) { tlstest.Run(t, secured) }

// TestScenario18_ASilentLineIsNoticed: see tlstest.SilentLine.
func TestScenario18_ASilentLineIsNoticed(t *testing.T) {
	t.Parallel()
	tlstest.SilentLine(t, secured)
}

var secured = tlstest.Adapter{
	Mute: true, // a NATS server keeps to itself why another one has closed its connection
	Hub: func(t *testing.T, c tlstest.Hub) (transport.Hub, string) {
		of := HubConfig{Common: common(t, c.End), Listen: anyPort, Credentials: c.Own, Authenticate: c.Authenticate}
		if !c.Websocket {
			h, _ := startHub(t, of)
			return h, addr(t, h)
		}
		of.WebsocketListen = anyPort
		h, _ := startHub(t, of)
		return h, websocketAddr(t, h)
	},
	Dialer: func(t *testing.T, agent, connect string, c tlstest.End) transport.Dialer {
		l, err := NewLeaf(LeafConfig{Common: common(t, c), Agent: agent, Connect: connect, Credentials: c.Own, Proxy: c.Proxy, Websocket: c.Websocket})
		require.NoError(t, err)
		return l
	},
}

func common(t testing.TB, c tlstest.End) Common {
	all := quick(t, t.TempDir())
	all.Heartbeat, all.Logger = c.Heartbeat, c.Log
	return all
}

// A network is a principal and its agents over real servers, TLS and TCP.
type network struct {
	tlstest.Lines
	pki    tlstest.Authority
	hubDir string
	hub    *Hub
	stop   func()
	dirs   map[string]string
	leaves map[string]*Leaf
}

func newNetwork(t *testing.T) *network {
	return &network{pki: tlstest.NewAuthority(t), hubDir: t.TempDir(), dirs: map[string]string{}, leaves: map[string]*Leaf{}}
}

func (n *network) StartHub(t testing.TB) transport.Hub {
	c := hubConfig(t, n.pki)
	c.StoreDir = n.hubDir
	n.hub, n.stop = startHub(t, c)
	n.Listen(addr(t, n.hub))
	return n.hub
}

func (n *network) StopHub(testing.TB) {
	n.Listen("")
	n.stop()
	n.hub = nil
}

func (n *network) StartAgent(t testing.TB, agent string) transport.Dialer {
	if n.dirs[agent] == "" {
		n.dirs[agent] = t.TempDir()
	}
	c := leafConfig(t, n.pki, agent, n.Line(t, agent).Addr())
	c.StoreDir = n.dirs[agent]
	l, err := NewLeaf(c)
	require.NoError(t, err)
	n.leaves[agent] = l
	return l
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
