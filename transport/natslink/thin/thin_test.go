package thin

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const anyPort = "127.0.0.1:0"

// Natslink's own run of the suite has a hundred reconnections in a row; the hub is the same here.
var adapter = linktest.Adapter{
	New: func(t *testing.T) linktest.Network { return newNetwork(t) },
	Traits: linktest.Traits{Kept: map[linktest.Store]bool{
		linktest.HubLog: true, linktest.AgentCopy: true, linktest.HubCopy: true,
	}},
	Within:     linktest.Plainly,
	Reconnects: 10,
}

func TestConns(t *testing.T) { linktest.RunConns(t, adapter) }

// TestTrust runs the suite of every transport over TLS.
func TestTrust(t *testing.T) { tlstest.Run(t, secured) }

func TestReverseProxyRestarts(t *testing.T) {
	tlstest.ReverseProxyRestarts(t, secured.ByWebsocket(tlstest.Websocket{Path: natslink.ClientWebsocketPath, TLS: true}))
}

// TestScenario18_ASilentLineIsNoticed: see tlstest.SilentLine.
func TestScenario18_ASilentLineIsNoticed(t *testing.T) {
	t.Parallel()
	tlstest.SilentLine(t, secured)
}

var secured = tlstest.Adapter{
	Hub: func(t *testing.T, c tlstest.Hub) (transport.Hub, string) {
		of := hubConfig(c.Own, t.TempDir())
		of.Heartbeat, of.Logger, of.Authenticate = c.Heartbeat, c.Log, c.Authenticate
		address := (*natslink.Hub).ClientAddr
		if c.Websocket {
			of.WebsocketListen = anyPort
			address = (*natslink.Hub).WebsocketAddr
		}
		h, _ := startHub(t, of)
		at, err := address(h, t.Context())
		require.NoError(t, err)
		return h, at
	},
	Dialer: func(t *testing.T, agent, connect string, c tlstest.End) transport.Dialer {
		of := natslink.ClientConfig{Common: common(t.TempDir()), Agent: agent, Connect: connect, Credentials: c.Own, Proxy: c.Proxy, Websocket: c.Websocket}
		of.Heartbeat, of.Logger = c.Heartbeat, c.Log
		d, err := natslink.NewClient(of)
		require.NoError(t, err)
		return d
	},
}

// common has faults noticed soon.
func common(dir string) natslink.Common {
	return natslink.Common{
		StoreDir: dir, Heartbeat: time.Second, Logger: zap.NewNop(), Presence: transport.Presence{Version: "test", Oldest: 1, Newest: 2},
	}
}

func hubConfig(own *identity.Credentials, dir string) natslink.HubConfig {
	return natslink.HubConfig{
		Common: common(dir), Listen: anyPort, ClientListen: anyPort, Credentials: own, Authenticate: identity.SubjectName,
	}
}

// startHub runs a Hub until the function that it returns is called, or the test ends.
func startHub(t testing.TB, c natslink.HubConfig) (*natslink.Hub, func()) {
	h, err := natslink.NewHub(c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return h, stop
}

// A network is a principal and its agents over a real server, TLS and TCP.
type network struct {
	tlstest.Lines
	pki    tlstest.Authority
	hubDir string
	stop   func()
	dirs   map[string]string // of agents
}

func newNetwork(t *testing.T) *network {
	return &network{pki: tlstest.NewAuthority(t), hubDir: t.TempDir(), dirs: map[string]string{}}
}

func (n *network) StartHub(t testing.TB) transport.Hub {
	h, stop := startHub(t, hubConfig(n.pki.Server(t), n.hubDir))
	n.stop = stop
	address, err := h.ClientAddr(t.Context())
	require.NoError(t, err)
	n.Listen(address)
	return h
}

func (n *network) StopHub(testing.TB) {
	n.Listen("")
	n.stop()
}

func (n *network) StartAgent(t testing.TB, agent string) transport.Dialer {
	if n.dirs[agent] == "" {
		n.dirs[agent] = t.TempDir()
	}
	d, err := natslink.NewClient(natslink.ClientConfig{
		Common: common(n.dirs[agent]), Agent: agent, Connect: n.Line(t, agent).Addr(), Credentials: n.pki.Client(t, agent),
	})
	require.NoError(t, err)
	return d
}

func (n *network) Wipe(t testing.TB, agent string, s linktest.Store) {
	require.Equal(t, linktest.AgentCopy, s, "the others are natslink's to lose")
	require.NoError(t, os.Remove(filepath.Join(n.dirs[agent], "nats-copy.db")))
}
