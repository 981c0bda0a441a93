package fleet

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
)

// A Carrier is by what messages travel.
type Carrier string

// The carriers.
const (
	Leaf   Carrier = "nats"        // a server in each process
	Client Carrier = "nats-client" // a server in the principal's only
	GRPC   Carrier = "grpc"
)

// A Hub is a transport's that knows where it listens.
type Hub interface {
	transport.Hub
	Addr(ctx context.Context) (string, error)
}

// A HubConfig configures the principal's end.
type HubConfig struct {
	Dir    string // of certificates, and of what is kept
	Listen string
	Quota  int64 // of each agent's log, in bytes; 0 is the transport's own
	Log    *zap.Logger
}

type ends struct {
	hub    func(HubConfig, *identity.Credentials) (Hub, error)
	dialer func(o Order, agent string, own *identity.Credentials) (transport.Dialer, error)
}

func carriers() map[Carrier]ends {
	return map[Carrier]ends{
		Leaf: {
			func(c HubConfig, own *identity.Credentials) (Hub, error) {
				return natslink.NewHub(natsHub(c, own, c.Listen, ""))
			},
			func(o Order, agent string, own *identity.Credentials) (transport.Dialer, error) {
				return natslink.NewLeaf(natslink.LeafConfig{Common: nats(o.Dir, agent, zap.NewNop()), Agent: agent, Connect: o.Principal, Credentials: own})
			},
		},
		Client: {
			func(c HubConfig, own *identity.Credentials) (Hub, error) {
				h, err := natslink.NewHub(natsHub(c, own, "127.0.0.1:0", c.Listen))
				return clientHub{h}, err
			},
			func(o Order, agent string, own *identity.Credentials) (transport.Dialer, error) {
				return natslink.NewClient(natslink.ClientConfig{Common: nats(o.Dir, agent, zap.NewNop()), Agent: agent, Connect: o.Principal, Credentials: own})
			},
		},
		GRPC: {
			func(c HubConfig, own *identity.Credentials) (Hub, error) {
				return grpclink.NewHub(grpclink.HubConfig{
					Common: grpclink.Common{Presence: presence(), Logger: c.Log}, Listen: c.Listen, Credentials: own, Authenticate: identity.SubjectName,
				})
			},
			func(o Order, agent string, own *identity.Credentials) (transport.Dialer, error) {
				return grpclink.NewDialer(grpclink.DialerConfig{
					Common: grpclink.Common{Presence: presence(), Logger: zap.NewNop()}, Agent: agent, Connect: o.Principal, Credentials: own,
					StateDir: Kept(o.Dir, agent),
				})
			},
		},
	}
}

// A clientHub is a hub over NATS whose agents run no server.
type clientHub struct{ *natslink.Hub }

// Addr implements Hub.
func (h clientHub) Addr(ctx context.Context) (string, error) { return h.ClientAddr(ctx) }

func natsHub(c HubConfig, own *identity.Credentials, listen, clients string) natslink.HubConfig {
	common := nats(c.Dir, throwaway.Principal, c.Log)
	common.Quota = c.Quota
	return natslink.HubConfig{Common: common, Listen: listen, ClientListen: clients, Credentials: own, Authenticate: identity.SubjectName}
}

// Check returns an error that names the carriers if c is none.
func (c Carrier) Check() error {
	if _, known := carriers()[c]; !known {
		return fmt.Errorf("fleet: there is no carrier %q, but %s, %s and %s", c, Leaf, Client, GRPC)
	}
	return nil
}

// NewHub returns the principal's end of a carrier.
func (c Carrier) NewHub(h HubConfig) (Hub, error) {
	own, err := throwaway.Files(h.Dir, throwaway.Principal).Credentials(time.Now())
	if err != nil {
		return nil, err
	}
	return carriers()[c].hub(h, own)
}

func (c Carrier) dialer(o Order, agent string) (transport.Dialer, error) {
	own, err := throwaway.Files(o.Dir, agent).Credentials(time.Now())
	if err != nil {
		return nil, err
	}
	return carriers()[c].dialer(o, agent, own)
}

// Kept returns where a program keeps messages.
func Kept(dir, name string) string { return filepath.Join(dir, "messages", name) }

func nats(dir, name string, log *zap.Logger) natslink.Common {
	return natslink.Common{StoreDir: Kept(dir, name), Presence: presence(), Logger: log}
}

func presence() transport.Presence {
	return transport.Presence{Version: "bench", Oldest: wire.Oldest, Newest: wire.Newest}
}
