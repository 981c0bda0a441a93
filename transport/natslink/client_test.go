package natslink

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// TestClientLink runs the suite of every transport with agents that run no server.
func TestClientLink(t *testing.T) { linktest.Run(t, clients) }

func TestClientConns(t *testing.T) { linktest.RunConns(t, clients) }

// TestClientTrust runs the suite of every transport over TLS.
func TestClientTrust(t *testing.T) { tlstest.Run(t, securedClients) }

// TestScenario18_ASilentLineIsNoticedByAClient: see tlstest.SilentLine.
func TestScenario18_ASilentLineIsNoticedByAClient(t *testing.T) {
	t.Parallel()
	tlstest.SilentLine(t, securedClients)
}

var clients = linktest.Adapter{
	New: func(t *testing.T) linktest.Network { return &clientNetwork{newNetwork(t)} },
	Traits: linktest.Traits{Kept: map[linktest.Store]bool{
		linktest.HubLog: true, linktest.AgentCopy: true, linktest.HubCopy: true,
	}},
	Within: linktest.Plainly,
}

var securedClients = tlstest.Adapter{
	Hub: func(t *testing.T, c tlstest.Hub) (transport.Hub, string) {
		h, _ := startHub(t, HubConfig{Common: common(t, c.End), Listen: anyPort, ClientListen: anyPort, Credentials: c.Own, Authenticate: c.Authenticate})
		return h, clientAddr(t, h)
	},
	Dialer: func(t *testing.T, agent, connect string, c tlstest.End) transport.Dialer {
		d, err := NewClient(ClientConfig{Common: common(t, c), Agent: agent, Connect: connect, Credentials: c.Own, Proxy: c.Proxy, Websocket: c.Websocket})
		require.NoError(t, err)
		return d
	},
}

func clientAddr(t testing.TB, h *Hub) string {
	a, err := h.ClientAddr(t.Context())
	require.NoError(t, err)
	return a
}

func clientConfig(t testing.TB, p tlstest.Authority, agent, connect string) ClientConfig {
	return ClientConfig{Common: quick(t, t.TempDir()), Agent: agent, Connect: connect, Credentials: p.Client(t, agent)}
}

// A clientNetwork is a network whose agents are clients.
type clientNetwork struct{ *network }

func (n *clientNetwork) StartHub(t testing.TB) transport.Hub {
	c := hubConfig(t, n.pki)
	c.StoreDir, c.ClientListen = n.hubDir, anyPort
	n.hub, n.stop = startHub(t, c)
	n.Listen(clientAddr(t, n.hub))
	return n.hub
}

func (n *clientNetwork) StartAgent(t testing.TB, agent string) transport.Dialer {
	if n.dirs[agent] == "" {
		n.dirs[agent] = t.TempDir()
	}
	c := clientConfig(t, n.pki, agent, n.Line(t, agent).Addr())
	c.StoreDir = n.dirs[agent]
	d, err := NewClient(c)
	require.NoError(t, err)
	return d
}

func (n *clientNetwork) Wipe(t testing.TB, agent string, s linktest.Store) {
	if s == linktest.AgentCopy {
		require.NoError(t, os.Remove(filepath.Join(n.dirs[agent], copyFile)))
		return
	}
	n.network.Wipe(t, agent, s)
}
