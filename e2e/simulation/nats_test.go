package simulation

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
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
type nats struct{ secured }

func newNATS(t *testing.T, s speeches) linktest.Network { return &nats{newSecured(t, s)} }

// common is what both ends have in common; each has a directory of its own.
func (n *nats) common(name string) natslink.Common {
	return natslink.Common{
		StoreDir: n.store(name), Heartbeat: time.Second, Logger: zap.NewNop(), Presence: n.presence(name),
	}
}

func (n *nats) store(name string) string { return filepath.Join(n.dir, "store-"+name) }

// StartHub implements linktest.Network.
func (n *nats) StartHub(t testing.TB) transport.Hub {
	h, err := natslink.NewHub(natslink.HubConfig{
		Common: n.common(hub), Listen: "127.0.0.1:0", Credentials: n.ca.Server(t), Authenticate: identity.SubjectName,
	})
	require.NoError(t, err)
	return n.serve(t, h)
}

// StartAgent implements linktest.Network.
func (n *nats) StartAgent(t testing.TB, agent string) transport.Dialer {
	leaf, err := natslink.NewLeaf(natslink.LeafConfig{
		Common: n.common(agent), Agent: agent, Connect: n.Line(t, agent).Addr(), Credentials: n.ca.Client(t, agent),
	})
	require.NoError(t, err)
	return leaf
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
