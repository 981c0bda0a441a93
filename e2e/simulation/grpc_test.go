package simulation

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

// overGRPC is the fabric of grpclink: real connections, TLS and disks, in real time. Its logs
// are in memory.
func overGRPC() fabric {
	return fabric{
		name:    "grpc",
		network: newGRPC,
		within:  linktest.Plainly,
		tick:    500 * time.Millisecond, patience: 2 * time.Minute, quiet: 3 * time.Second,
	}
}

// grpc is one principal and its agents over grpclink as linktest.Network, for stories that lose
// no store.
type grpc struct{ secured }

func newGRPC(t *testing.T, s speeches) linktest.Network { return &grpc{newSecured(t, s)} }

func (n *grpc) common(name string) grpclink.Common {
	return grpclink.Common{Heartbeat: time.Second, Logger: zap.NewNop(), Presence: n.presence(name)}
}

// StartHub implements linktest.Network.
func (n *grpc) StartHub(t testing.TB) transport.Hub {
	h, err := grpclink.NewHub(grpclink.HubConfig{
		Common: n.common(hub), Listen: "127.0.0.1:0", Credentials: n.ca.Server(t), Authenticate: identity.SubjectName,
	})
	require.NoError(t, err)
	return n.serve(t, h)
}

// StartAgent implements linktest.Network.
func (n *grpc) StartAgent(t testing.TB, agent string) transport.Dialer {
	d, err := grpclink.NewDialer(grpclink.DialerConfig{
		Common: n.common(agent), Agent: agent, Connect: n.Line(t, agent).Addr(), Credentials: n.ca.Client(t, agent),
		StateDir: filepath.Join(n.dir, agent),
	})
	require.NoError(t, err)
	return d
}

// Wipe implements linktest.Network.
func (n *grpc) Wipe(t testing.TB, _ string, s linktest.Store) {
	t.Fatalf("no story over gRPC loses store %d", s)
}
