package matrix

import (
	"context"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
	"github.com/argocd-fabric/argocd-agent/transport/natslink/monitor"
)

// A carrier is one value of the axis of transports: how a program is told of it, and the same
// for one within the test.
type carrier struct {
	name             string
	principal, agent func(ends) []string
	hub              func(ends) (transport.Hub, error)
	dialer           func(ends) (transport.Dialer, error)
	// taken returns how many messages each log and each copy of a program has taken so far.
	taken func(context.Context, ends) (map[string]uint64, error)
}

// ends are what one end of a link is made of.
type ends struct {
	dir     string // of what is kept
	certs   string // the folder of certificates
	name    string // in one of them
	address string // to listen on, or to connect to
	monitor string // a loopback address for the transport's own use
}

func carriers() []carrier {
	return []carrier{{
		name: "leaf",
		principal: func(e ends) []string {
			return append(e.stored(), "--nats-leaf-listen", e.address)
		},
		agent: func(e ends) []string {
			host, port, _ := net.SplitHostPort(e.address) // it is one of ours
			return append(e.stored(), "--server-address", host, "--server-port", port)
		},
		hub: func(e ends) (transport.Hub, error) {
			own, err := throwaway.Files(e.certs, e.name).Credentials(time.Now())
			if err != nil {
				return nil, err
			}
			return natslink.NewHub(natslink.HubConfig{Common: e.common(), Listen: e.address, Credentials: own, Authenticate: identity.SubjectName})
		},
		dialer: func(e ends) (transport.Dialer, error) {
			own, err := throwaway.Files(e.certs, e.name).Credentials(time.Now())
			if err != nil {
				return nil, err
			}
			return natslink.NewLeaf(natslink.LeafConfig{Common: e.common(), Agent: e.name, Connect: e.address, Credentials: own})
		},
		taken: func(ctx context.Context, e ends) (map[string]uint64, error) { return monitor.Sequences(ctx, e.monitor) },
	}}
}

func (e ends) stored() []string {
	return []string{"--transport", "nats", "--nats-store-dir", e.dir, "--nats-monitor-listen", e.monitor}
}

func (e ends) common() natslink.Common {
	return natslink.Common{
		StoreDir: e.dir, MonitorListen: e.monitor, Logger: zap.NewNop(),
		Presence: transport.Presence{Version: "matrix", Oldest: wire.Oldest, Newest: wire.Newest},
	}
}
