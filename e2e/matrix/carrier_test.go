package matrix

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
	"github.com/argocd-fabric/argocd-agent/transport/natslink/monitor"
)

// A carrier is one value of the axis of transports: how a program is told of it, and the same
// for one within the test.
type carrier struct {
	name             string
	recalls          bool // a principal that starts anew recalls what agents have said
	principal, agent func(ends) []string
	hub              func(ends) (transport.Hub, error)
	dialer           func(ends) (transport.Dialer, error)
	// taken returns how many messages each log and each copy of a side has taken so far, or,
	// where nobody counts them, how many may have crossed the line.
	taken func(context.Context, *world, *side) (map[string]uint64, error)
}

// ends are what one end of a link is made of.
type ends struct {
	dir     string // of what is kept
	certs   string // the folder of certificates
	name    string // in one of them
	address string // to listen on, or to connect to
	monitor string // a loopback address for the transport's own use
}

// carriers returns those that are played on every platform.
func carriers() []carrier { return []carrier{leafCarrier(), grpcCarrier("grpc", false)} }

// others returns further ones, of which each is played on memory, and with -full everywhere.
func others() []carrier { return []carrier{clientCarrier(), grpcCarrier("grpc-websocket", true)} }

// leafCarrier returns NATS with agents that run a server each.
func leafCarrier() carrier {
	return carrier{
		name: "leaf", recalls: true,
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
		taken: func(ctx context.Context, _ *world, s *side) (map[string]uint64, error) {
			return monitor.Sequences(ctx, s.ends.monitor)
		},
	}
}

// clientCarrier returns NATS with agents that run no server.
func clientCarrier() carrier {
	return carrier{
		name: "client", recalls: true,
		principal: func(e ends) []string {
			return append(e.stored(), "--nats-leaf-listen", "127.0.0.1:0", "--nats-client-listen", e.address)
		},
		agent: func(e ends) []string {
			host, port, _ := net.SplitHostPort(e.address) // it is one of ours
			return []string{"--transport", "nats", "--nats-mode", "client", "--state-dir", e.dir, "--server-address", host, "--server-port", port}
		},
		hub: func(e ends) (transport.Hub, error) {
			own, err := throwaway.Files(e.certs, e.name).Credentials(time.Now())
			if err != nil {
				return nil, err
			}
			return natslink.NewHub(natslink.HubConfig{
				Common: e.common(), Listen: "127.0.0.1:0", ClientListen: e.address, Credentials: own, Authenticate: identity.SubjectName,
			})
		},
		dialer: func(e ends) (transport.Dialer, error) {
			own, err := throwaway.Files(e.certs, e.name).Credentials(time.Now())
			if err != nil {
				return nil, err
			}
			return natslink.NewClient(natslink.ClientConfig{Common: e.common(), Agent: e.name, Connect: e.address, Credentials: own})
		},
		taken: func(ctx context.Context, w *world, _ *side) (map[string]uint64, error) {
			return monitor.Sequences(ctx, w.hub.ends.monitor) // of what either side says
		},
	}
}

// grpcCarrier returns gRPC as it is, or in websockets.
func grpcCarrier(name string, websocket bool) carrier {
	return carrier{
		name: name,
		principal: func(e ends) []string {
			return append(websockets(websocket), "--transport", "grpc", "--state-dir", e.dir, "--grpc-listen", e.address)
		},
		agent: func(e ends) []string {
			host, port, _ := net.SplitHostPort(e.address) // it is one of ours
			return append(websockets(websocket), "--transport", "grpc", "--state-dir", e.dir, "--server-address", host, "--server-port", port)
		},
		hub: func(e ends) (transport.Hub, error) {
			own, err := throwaway.Files(e.certs, e.name).Credentials(time.Now())
			if err != nil {
				return nil, err
			}
			return grpclink.NewHub(grpclink.HubConfig{Common: e.grpc(), Listen: e.address, Websocket: websocket, Credentials: own, Authenticate: identity.SubjectName})
		},
		dialer: func(e ends) (transport.Dialer, error) {
			own, err := throwaway.Files(e.certs, e.name).Credentials(time.Now())
			if err != nil {
				return nil, err
			}
			c := grpclink.DialerConfig{Common: e.grpc(), Agent: e.name, Connect: e.address, Credentials: own, StateDir: e.dir}
			if websocket {
				c.Websocket = &url.URL{Scheme: "wss", Host: e.address, Path: grpclink.WebsocketPath}
			}
			return grpclink.NewDialer(c)
		},
		taken: func(_ context.Context, w *world, _ *side) (map[string]uint64, error) {
			return map[string]uint64{"line": w.line.Long()}, nil
		},
	}
}

// websockets returns the flag of either program that has them used.
func websockets(used bool) []string { return []string{fmt.Sprintf("--enable-websocket=%t", used)} }

func (e ends) stored() []string {
	return []string{"--transport", "nats", "--nats-store-dir", e.dir, "--nats-monitor-listen", e.monitor}
}

func (e ends) common() natslink.Common {
	return natslink.Common{StoreDir: e.dir, MonitorListen: e.monitor, Logger: zap.NewNop(), Presence: presence()}
}

func (e ends) grpc() grpclink.Common {
	return grpclink.Common{Logger: zap.NewNop(), Presence: presence()}
}

func presence() transport.Presence {
	return transport.Presence{Version: "matrix", Oldest: wire.Oldest, Newest: wire.Newest}
}
