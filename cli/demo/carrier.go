package demo

import (
	"context"
	"net/url"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
)

// A Carrier is by what messages travel.
type Carrier uint8

// The carriers.
const (
	NATS Carrier = iota // a server in each program
	GRPC
	NATSWebsocket // the same in websockets
	GRPCWebsocket
	NATSClient         // a server in the principal's only
	NATSExternal       // a cluster of servers, and one in each agent
	NATSExternalClient // a cluster of servers only
)

const anyPort = "127.0.0.1:0"

// A listener is a Hub that knows where it listens.
type listener interface {
	transport.Hub
	Addr(ctx context.Context) (string, error)
}

// The ends of a carrier.
type ends struct {
	hubIs, agentIs string // for people

	hub    func(w *world, own *identity.Credentials, log *zap.Logger) (listener, error)
	dialer func(w *world, s *spoke, own *identity.Credentials, log *zap.Logger) (transport.Dialer, error)
}

func (c Carrier) ends() ends {
	return map[Carrier]ends{
		NATS: natsEnds(false), NATSWebsocket: natsEnds(true), NATSClient: natsClientEnds(), GRPC: grpcEnds(false), GRPCWebsocket: grpcEnds(true),
		NATSExternal: natsExternalEnds(natsEnds(false), leafPort), NATSExternalClient: natsExternalEnds(natsClientEnds(), clientPort),
	}[c]
}

func natsEnds(websocket bool) ends {
	return ends{
		"with NATS", "a leaf node",
		func(w *world, own *identity.Credentials, log *zap.Logger) (listener, error) {
			c := natslink.HubConfig{Common: w.natsCommon("principal", log), Listen: anyPort, Credentials: own, Authenticate: identity.SubjectName}
			if !websocket {
				return natslink.NewHub(c)
			}
			c.WebsocketListen = anyPort
			h, err := natslink.NewHub(c)
			return websocketHub{h}, err
		},
		func(w *world, s *spoke, own *identity.Credentials, log *zap.Logger) (transport.Dialer, error) {
			return natslink.NewLeaf(natslink.LeafConfig{
				Common: w.natsCommon(s.Name, log), Agent: s.Name, Connect: s.line.address(), Credentials: own,
				Websocket: s.url(websocket, natslink.WebsocketPath),
			})
		},
	}
}

// A websocketHub is a hub over NATS of which the websockets are used.
type websocketHub struct{ *natslink.Hub }

// Addr implements listener.
func (h websocketHub) Addr(ctx context.Context) (string, error) { return h.WebsocketAddr(ctx) }

func natsClientEnds() ends {
	return ends{
		"with NATS", "a client of it",
		func(w *world, own *identity.Credentials, log *zap.Logger) (listener, error) {
			h, err := natslink.NewHub(natslink.HubConfig{
				Common: w.natsCommon("principal", log), Listen: anyPort, ClientListen: anyPort, Credentials: own, Authenticate: identity.SubjectName,
			})
			return clientHub{h}, err
		},
		func(w *world, s *spoke, own *identity.Credentials, log *zap.Logger) (transport.Dialer, error) {
			return natslink.NewClient(natslink.ClientConfig{Common: w.natsCommon(s.Name, log), Agent: s.Name, Connect: s.line.address(), Credentials: own})
		},
	}
}

// A clientHub is a hub over NATS whose agents run no server.
type clientHub struct{ *natslink.Hub }

// Addr implements listener.
func (h clientHub) Addr(ctx context.Context) (string, error) { return h.ClientAddr(ctx) }

func grpcEnds(websocket bool) ends {
	return ends{
		"with gRPC", "a client of it",
		func(_ *world, own *identity.Credentials, log *zap.Logger) (listener, error) {
			return grpclink.NewHub(grpclink.HubConfig{Common: grpcCommon(log), Listen: anyPort, Websocket: websocket, Credentials: own, Authenticate: identity.SubjectName})
		},
		func(w *world, s *spoke, own *identity.Credentials, log *zap.Logger) (transport.Dialer, error) {
			return grpclink.NewDialer(grpclink.DialerConfig{
				Common: grpcCommon(log), Agent: s.Name, Connect: s.line.address(), Credentials: own, StateDir: w.messages(s.Name),
				Websocket: s.url(websocket, grpclink.WebsocketPath),
			})
		},
	}
}

// url returns the URL by which an agent comes by websocket; nil if it does not.
func (s *spoke) url(websocket bool, path string) *url.URL {
	if !websocket {
		return nil
	}
	return &url.URL{Scheme: "wss", Host: s.line.address(), Path: path}
}

// messages is where a program keeps messages.
func (w *world) messages(name string) string { return filepath.Join(w.dir, "messages", name) }

func (w *world) natsCommon(name string, log *zap.Logger) natslink.Common {
	return natslink.Common{StoreDir: w.messages(name), Presence: presence(), Heartbeat: heartbeat, Logger: log}
}

func grpcCommon(log *zap.Logger) grpclink.Common {
	return grpclink.Common{Presence: presence(), Heartbeat: heartbeat, Logger: log}
}

func presence() transport.Presence {
	return transport.Presence{Version: "demo", Oldest: wire.Oldest, Newest: wire.Newest}
}
