package grpclink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink/linkpb"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/packetlink"
	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

// A HubConfig configures the principal's end.
type HubConfig struct {
	Common
	// Listen is the host:port that agents connect to, or unix:path, where a proxy does on their
	// behalf. Port 0 is any: see Hub.Addr.
	Listen string
	// Websocket says that agents may come to it by websocket too, at WebsocketPath.
	Websocket bool
	// Credentials are what agents are met with: over TLS, unless they are plain. Once they are
	// replaced, agents that they do not
	// trust any more are cut off.
	Credentials *identity.Credentials
	// Authenticate finds out who has made a call, one of a connection at a time.
	Authenticate identity.Prover
	// Strangers is told of those that have proven a name and are not registered; nil is nobody.
	Strangers func(transport.Stranger)
	// Admissions is how many agents may connect in a second, after half as many at once. Those
	// beyond are told when to come again. 0 is DefaultAdmissions.
	Admissions int
	// Limits bound the table of an agent, either way: what it may make this process hold. The
	// zero Limits are those of package packetlink.
	Limits packetlink.Limits
}

// WebsocketPath is that of the URL by which agents come by websocket.
const WebsocketPath = "/argocd-agent/grpc"

// A Hub is the principal's end: a gRPC server in this process. It implements transport.Hub.
type Hub struct {
	config  HubConfig
	desk    *desk
	links   *packetlink.Hub
	serving transport.Serving
	addr    string // set before it begins
}

// NewHub returns a Hub. Nothing happens before Run.
func NewHub(c HubConfig) (*Hub, error) {
	fail := func(err error) (*Hub, error) { return nil, fmt.Errorf("grpclink: hub: %w", err) }
	var err error
	if c.Common, err = c.check(); err != nil {
		return fail(err)
	}
	if err := checkListen(c.Listen); err != nil {
		return fail(err)
	}
	if c.Admissions == 0 {
		c.Admissions = DefaultAdmissions
	}
	switch {
	case c.Credentials == nil, c.Authenticate == nil:
		return fail(errors.New("credentials and authentication are needed"))
	case c.Websocket && c.Credentials.Plain():
		return fail(errors.New("what comes by websocket is over TLS, and these credentials are for plaintext"))
	case c.Admissions < 0:
		return fail(fmt.Errorf("%d admissions in a second", c.Admissions))
	}
	if c.Limits, err = c.Limits.Check(); err != nil {
		return fail(err)
	}
	squeeze, err := newSqueezer()
	if err != nil {
		return fail(err)
	}
	d := newDesk(c, squeeze)
	return &Hub{
		config: c, desk: d,
		links:   packetlink.NewHub(packetlink.HubConfig{Open: d.open, Forget: d.forget, Kept: d.kept}),
		serving: transport.NewServing(),
	}, nil
}

// Run serves agents until ctx is done or nothing can be served any more. It may be called
// once.
func (h *Hub) Run(ctx context.Context) error {
	defer h.serving.End()
	listener, err := h.config.listen()
	if err != nil {
		return fmt.Errorf("grpclink: hub: %w", err)
	}
	h.addr = listener.Addr().String()
	server := grpc.NewServer(h.config.serverOptions(h.desk)...)
	linkpb.RegisterLinkServer(server, h.desk)
	h.desk.start(time.Now())

	run, cancel := context.WithCancelCause(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); err != nil {
			cancel(fmt.Errorf("grpclink: serve agents: %w", err))
		}
	}()
	h.serving.Begin()
	h.desk.over.Go(func() { h.desk.watch(run) })
	err = h.links.Run(run)
	cancel(nil)
	server.Stop()
	<-served
	h.desk.over.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// listen returns the listener of agents' connections, bare and in websockets.
func (c HubConfig) listen() (net.Listener, error) {
	l, err := listen(c.Listen)
	if err != nil || !c.Websocket {
		return l, err
	}
	return tunnel.Open(l, tunnel.DoorConfig{Path: WebsocketPath, TLS: c.Credentials.EnvelopeServer(), Others: true}), nil
}

// Addr returns the address that agents connect to. It waits until Run listens.
func (h *Hub) Addr(ctx context.Context) (string, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return "", fmt.Errorf("grpclink: address: %w", err)
	}
	return h.addr, nil
}

// Link implements transport.Hub.
func (h *Hub) Link(ctx context.Context, agent string) (transport.Link, error) {
	err := identity.CheckName(agent)
	if err != nil {
		err = fmt.Errorf("%w: %w", transport.ErrUnknown, err)
	} else {
		err = h.serving.Wait(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("grpclink: link to %.80q: %w", agent, err)
	}
	return h.links.Link(ctx, agent)
}

// Forget implements transport.Hub.
func (h *Hub) Forget(ctx context.Context, agent string) error { return h.links.Forget(ctx, agent) }

// Troubles implements transport.Troubled: which agents break the rules, and whose tables are
// larger than they may be ("copy quota").
func (h *Hub) Troubles() []transport.Trouble { return h.desk.troubles(time.Now()) }

// Kept implements transport.Hub. Only what this process has opened is kept, in memory.
func (h *Hub) Kept(ctx context.Context) ([]string, error) { return h.links.Kept(ctx) }
