package simulation

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// overNATS is the fabric of natslink: real servers, TLS and disks, in real time.
func overNATS() fabric {
	return fabric{
		name:    "nats",
		network: newNATS,
		within:  linktest.Plainly,
		keeps:   true, wipesStopped: true,
		tick: 500 * time.Millisecond, patience: 2 * time.Minute, quiet: 3 * time.Second,
	}
}

// nats is one principal and its agents over natslink as linktest.Network.
type nats struct {
	t     *testing.T
	dir   string
	ca    *pki.CA
	lines map[string]*netfault.Line
	stop  func()

	mu   sync.Mutex
	addr string // of the hub; "" while there is none
}

func newNATS(t *testing.T) linktest.Network {
	n := &nats{t: t, dir: t.TempDir(), lines: map[string]*netfault.Line{}}
	var err error
	n.ca, err = pki.NewCA("simulation", n.pki())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(n.dir, "ca.crt"), n.ca.Pair().Cert, 0o600))
	return n
}

func (n *nats) pki() pki.Options { return pki.Options{Now: time.Now(), Lifetime: time.Hour} }

func (n *nats) files(name string, pair pki.Pair) identity.Files {
	at := func(suffix string) string { return filepath.Join(n.dir, name+suffix) }
	f := identity.Files{CA: filepath.Join(n.dir, "ca.crt"), Cert: at(".crt"), Key: at(".key")}
	require.NoError(n.t, os.WriteFile(f.Cert, pair.Cert, 0o600))
	require.NoError(n.t, os.WriteFile(f.Key, pair.Key, 0o600))
	return f
}

// common is what both ends have in common; each has a directory of its own.
func (n *nats) common(name string) natslink.Common {
	return natslink.Common{
		StoreDir: n.store(name), Heartbeat: time.Second, Logger: zap.NewNop(), Presence: presence,
	}
}

func (n *nats) store(name string) string { return filepath.Join(n.dir, "store-"+name) }

func (n *nats) StartHub(t testing.TB) transport.Hub {
	pair, err := n.ca.IssueServer("principal", []string{"127.0.0.1"}, n.pki())
	require.NoError(t, err)
	own, err := n.files("principal", pair).Credentials(time.Now())
	require.NoError(t, err)
	hub, err := natslink.NewHub(natslink.HubConfig{
		Common: n.common("hub"), Listen: "127.0.0.1:0", Credentials: own, Authenticate: identity.SubjectName,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- hub.Run(ctx) }()
	n.stop = func() {
		cancel()
		require.NoError(t, <-ended)
	}
	addr, err := hub.Addr(ctx)
	require.NoError(t, err)
	n.listen(addr)
	return hub
}

func (n *nats) StopHub(testing.TB) {
	n.listen("")
	n.stop()
}

// listen notes where the hub listens.
func (n *nats) listen(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addr = addr
}

func (n *nats) target() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

// line is what an agent connects through.
func (n *nats) line(agent string) *netfault.Line {
	if n.lines[agent] == nil {
		l, err := netfault.Listen(n.target)
		require.NoError(n.t, err)
		n.t.Cleanup(func() { require.NoError(n.t, l.Close()) })
		n.lines[agent] = l
	}
	return n.lines[agent]
}

func (n *nats) StartAgent(t testing.TB, agent string) transport.Dialer {
	pair, err := n.ca.IssueAgent(agent, n.pki())
	require.NoError(t, err)
	own, err := n.files(agent, pair).Credentials(time.Now())
	require.NoError(t, err)
	leaf, err := natslink.NewLeaf(natslink.LeafConfig{
		Common: n.common(agent), Agent: agent, Connect: n.line(agent).Addr(), Credentials: own,
	})
	require.NoError(t, err)
	return leaf
}

func (n *nats) Fault(_ testing.TB, agent string, f linktest.Fault) {
	n.line(agent).Set(map[linktest.Fault]netfault.Fault{
		linktest.Healthy: netfault.Healthy, linktest.Cut: netfault.Cut,
		linktest.BlackHole: netfault.BlackHole, linktest.Slow: netfault.Slow,
	}[f])
}

// Wipe implements linktest.Network for a process that does not run: it removes the
// store's directory.
func (n *nats) Wipe(t testing.TB, agent string, s linktest.Store) {
	side := map[linktest.Store]string{linktest.HubLog: "hub", linktest.HubCopy: "hub"}[s]
	if side == "" {
		side = agent
	}
	stream := map[linktest.Store]string{
		linktest.HubLog: "DOWN_", linktest.AgentCopy: "IN_", linktest.AgentLog: "OUT_", linktest.HubCopy: "UP_",
	}[s] + agent
	found, err := filepath.Glob(filepath.Join(n.store(side), "jetstream", "*", "streams", stream))
	require.NoError(t, err)
	require.Len(t, found, 1, "the directory of %s", stream)
	require.NoError(t, os.RemoveAll(found[0]))
}
