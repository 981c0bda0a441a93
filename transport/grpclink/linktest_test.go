package grpclink

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
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

// TestTrust runs the suite of every transport over TLS.
func TestTrust(t *testing.T) { tlstest.Run(t, secured) }

// TestScenario18_ASilentLineIsNoticed: see tlstest.SilentLine.
func TestScenario18_ASilentLineIsNoticed(t *testing.T) {
	t.Parallel()
	tlstest.SilentLine(t, secured)
}

var secured = tlstest.Adapter{
	Hub: func(t *testing.T, c tlstest.Hub) (transport.Hub, string) {
		h, _ := startHub(t, HubConfig{
			Common: Common{Heartbeat: c.Heartbeat, Logger: c.Log, Presence: presence}, Listen: "127.0.0.1:0",
			Credentials: c.Own, Authenticate: c.Authenticate, Websocket: c.Websocket,
		})
		return h, addr(t, h)
	},
	Dialer: func(t *testing.T, agent, connect string, c tlstest.End) transport.Dialer {
		d, err := NewDialer(DialerConfig{
			Common: Common{Heartbeat: c.Heartbeat, Logger: c.Log, Presence: presence}, Agent: agent, Connect: connect,
			Credentials: c.Own, Proxy: c.Proxy, Websocket: c.Websocket, StateDir: t.TempDir(),
		})
		require.NoError(t, err)
		return d
	},
}

// A network is a principal and its agents over real TLS and TCP.
type network struct {
	tlstest.Lines
	pki  tlstest.Authority
	stop func()
	dirs map[string]string
}

func newNetwork(t *testing.T) *network {
	return &network{pki: tlstest.NewAuthority(t), dirs: map[string]string{}}
}

func (n *network) StartHub(t testing.TB) transport.Hub {
	h, stop := startHub(t, hubConfig(t, n.pki))
	n.stop = stop
	n.Listen(addr(t, h))
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
	c := dialerConfig(t, n.pki, agent, n.Line(t, agent).Addr())
	c.StateDir = n.dirs[agent]
	d, err := NewDialer(c)
	require.NoError(t, err)
	return d
}

func (n *network) Wipe(t testing.TB, agent string, s linktest.Store) {
	require.Equal(t, linktest.AgentCopy, s, "only this is kept")
	require.NoError(t, os.Remove(filepath.Join(n.dirs[agent], copyFile)))
}
