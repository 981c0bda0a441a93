package natslink

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

// A HubConfig configures the principal's end.
type HubConfig struct {
	Common
	// Listen is the host:port that agents connect to. Port 0 is any: see Hub.Addr.
	Listen string
	// ClientListen is the host:port that agents without a server of their own connect to (see
	// Client), with TLS from the first byte. "" is none; port 0 is any: see Hub.ClientAddr.
	ClientListen string
	// WebsocketListen is the host:port that agents connect to by websocket, at WebsocketPath. ""
	// is none; port 0 is any: see Hub.WebsocketAddr.
	WebsocketListen string
	// Credentials are what agents are met with. Once they are replaced, agents that they do not
	// trust any more are cut off.
	Credentials *identity.Credentials
	// Authenticate finds out who has opened a connection.
	Authenticate identity.Prover
	// Strangers is told of those that have proven a name and are not registered; nil is nobody.
	Strangers func(transport.Stranger)
}

// A Hub is the principal's end: a NATS server in this process, with a pair of streams
// and an account for each agent. It implements transport.Hub.
type Hub struct {
	config  HubConfig
	node    *node
	guard   *guard
	serving transport.Serving

	entrance  *entrance
	websocket string // where it listens, set before it serves; "" is nowhere

	accounts accounts
	stores   []jetstream.JetStream // set before it serves

	mu     sync.Mutex
	links  map[string]*link // that are open; nil while one is being opened or forgotten
	closed bool             // Run is about to return
}

// hubStores is how many connections to the store the links share. The server serves each
// connection by one goroutine.
const hubStores = 8

// store returns the connection to the store that is used for an agent.
func (h *Hub) store(agent string) jetstream.JetStream {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(agent)) // never fails
	return h.stores[sum.Sum32()%hubStores]
}

// NewHub returns a Hub. Nothing happens before Run.
func NewHub(c HubConfig) (*Hub, error) {
	fail := func(err error) (*Hub, error) { return nil, fmt.Errorf("natslink: hub: %w", err) }
	common, err := c.check()
	if err != nil {
		return fail(err)
	}
	c.Common = common
	if c.Credentials == nil || c.Authenticate == nil {
		return fail(errors.New("credentials and authentication are needed"))
	}
	if c.Credentials.Plain() {
		return fail(errPlain)
	}
	host, port, err := splitAddress(c.Listen)
	if err != nil {
		return fail(err)
	}
	if c.WebsocketListen != "" {
		if _, _, err := splitAddress(c.WebsocketListen); err != nil {
			return fail(err)
		}
	}
	o := c.serverOptions("principal", "hub")
	o.LeafNode = server.LeafNodeOpts{
		Host: host, Port: port, TLSConfig: c.Credentials.Server(), TLSTimeout: tlsTimeout.Seconds(), TLSHandshakeFirst: true,
		NoAdvertise: true, IsolateLeafnodeInterest: true,
		Compression: server.CompressionOpts{Mode: server.CompressionOff},
	}
	if c.ClientListen != "" {
		if o.Host, o.Port, err = splitAddress(c.ClientListen); err != nil {
			return fail(err)
		}
		o.TLSConfig, o.TLSTimeout, o.TLSHandshakeFirst = c.Credentials.Server(), tlsTimeout.Seconds(), true
	}
	in := newEntrance(c.Logger)
	var n *node
	calls := newCallers(c.Logger, func(id uint64) uint64 { return n.connected(id) }, func(id uint64) { n.sever(id) })
	n = newNode(o, "HUB", c.Logger, newTroubles(c.Alarms, c.StoreDir), calls.hear)
	g := newGuard(c.Authenticate, c.Credentials, calls, in.origin, c.Logger)
	g.strangers = c.Strangers
	return &Hub{
		config:   c,
		node:     n,
		guard:    g,
		serving:  transport.NewServing(),
		entrance: in,
		links:    map[string]*link{}, accounts: accounts{of: map[string]string{}},
	}, nil
}

// Run serves agents until ctx is done. It may be called once. A store or a server that
// fails meanwhile does not end it: see Troubles.
func (h *Hub) Run(ctx context.Context) error {
	defer h.serving.End()
	if err := prepareDir(h.config.StoreDir); err != nil {
		return err
	}
	for _, address := range []string{h.config.Listen, h.config.ClientListen, h.config.MonitorListen} {
		if address != "" {
			if err := free(address); err != nil {
				return err
			}
		}
	}
	h.guard.open()
	if err := h.node.start(h.guard.admit); err != nil {
		return err
	}
	defer h.node.stop()
	defer h.guard.close()
	for range hubStores {
		nc, err := h.node.connect(storeUser, "_INBOX_store")
		if err != nil {
			return err
		}
		defer nc.Close()
		js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(requestPatience))
		if err != nil {
			return fmt.Errorf("natslink: hub: %w", err)
		}
		h.stores = append(h.stores, js)
	}
	if err := h.node.hearDeletions(h.stores[0].Conn()); err != nil {
		return err
	}
	leave, err := h.enter()
	if err != nil {
		return err
	}
	defer leave()
	h.serving.Begin()
	// The keeper stays until the last Link is closed.
	kept, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { (&keeper{node: h.node, admit: h.guard.admit, anew: h.guard.restarted}).run(kept) })
	keeping.Go(func() { h.guard.watch(kept, h.node.sever) })
	<-ctx.Done()
	h.closeLinks()
	stop()
	keeping.Wait()
	return nil
}

// enter has agents come in by websocket, if they may, until leave is called.
func (h *Hub) enter() (leave func(), err error) {
	if h.config.WebsocketListen == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", h.config.WebsocketListen)
	if err != nil {
		return nil, fmt.Errorf("natslink: websockets: %w", err)
	}
	h.websocket = l.Addr().String()
	host, port, err := h.leafHostPort()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	c := tunnel.DoorConfig{Path: WebsocketPath, TLS: h.config.Credentials.EnvelopeServer()}
	leads := map[string]string{WebsocketPath: within(host, port)}
	if a, ok := h.node.current().Addr().(*net.TCPAddr); ok {
		c.Another = ClientWebsocketPath
		leads[c.Another] = within(a.IP.String(), strconv.Itoa(a.Port))
	}
	door := tunnel.Open(l, c)
	ctx, cancel := context.WithCancel(context.Background())
	var entered sync.WaitGroup
	entered.Go(func() { h.entrance.run(ctx, door, func(conn net.Conn) string { return leads[tunnel.PathOf(conn)] }) })
	return func() { cancel(); entered.Wait() }, nil
}

func (h *Hub) closeLinks() {
	h.mu.Lock()
	h.closed = true
	var open []*link
	for _, l := range h.links {
		if l != nil {
			open = append(open, l)
		}
	}
	h.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range open {
		all.Go(func() { _ = l.Close() }) // it never fails
	}
	all.Wait()
}

// Addr waits until Run serves, and returns the address that agents connect to.
func (h *Hub) Addr(ctx context.Context) (string, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return "", err
	}
	host, port, err := h.leafHostPort()
	return net.JoinHostPort(host, port), err
}

// leafHostPort returns where the server listens for agents.
func (h *Hub) leafHostPort() (host, port string, err error) {
	v, err := h.node.current().Varz(nil)
	if err != nil {
		return "", "", fmt.Errorf("natslink: hub: %w", err)
	}
	return v.LeafNode.Host, strconv.Itoa(v.LeafNode.Port), nil
}

// ClientAddr waits until Run serves, and returns the address that agents without a server of
// their own connect to, "" if there is none.
func (h *Hub) ClientAddr(ctx context.Context) (string, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return "", err
	}
	if a := h.node.current().Addr(); a != nil {
		return a.String(), nil
	}
	return "", nil
}

// WebsocketAddr waits until Run serves, and returns the address that agents connect to by
// websocket, "" if there is none.
func (h *Hub) WebsocketAddr(ctx context.Context) (string, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return "", err
	}
	return h.websocket, nil
}

// MonitorAddr waits until Run serves, and returns the address of the server's monitoring,
// "" if there is none.
func (h *Hub) MonitorAddr(ctx context.Context) (string, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return "", err
	}
	return h.node.monitorAddr(), nil
}

// Link opens the Link to an agent.
func (h *Hub) Link(ctx context.Context, agent string) (transport.Link, error) {
	if err := identity.CheckName(agent); err != nil {
		return nil, fmt.Errorf("natslink: link to %.80q: %w: %w", agent, transport.ErrUnknown, err)
	}
	if err := h.serving.Wait(ctx); err != nil {
		return nil, err
	}
	if err := h.claim(agent); err != nil {
		return nil, err
	}
	l, err := h.open(ctx, agent)
	if err != nil {
		h.release(agent)
		return nil, cause(ctx, err)
	}
	if !h.keep(agent, l) {
		return nil, errors.Join(transport.ErrClosed, l.Close())
	}
	return l, nil
}

// keep notes that l is open, unless Run is about to return.
func (h *Hub) keep(agent string, l *link) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.links[agent] = l
	return true
}

// claim makes sure that nothing else is done with the Link to an agent until release.
func (h *Hub) claim(agent string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, open := h.links[agent]; open {
		return fmt.Errorf("natslink: the link to %s is open already", agent)
	}
	h.links[agent] = nil
	return nil
}

func (h *Hub) release(agent string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.links, agent)
}

func (h *Hub) open(ctx context.Context, agent string) (*link, error) {
	n, js := names{agent}, h.store(agent)
	log, err := newStream(ctx, h.node, js, h.config.stream(agent, partLog, n.downLog(), n.down()))
	if err != nil {
		return nil, err
	}
	kept, err := newStream(ctx, h.node, js, h.config.stream(agent, partCopy, n.upCopy(), n.up()))
	if err != nil {
		h.node.forgo(log)
		return nil, err
	}
	account := h.accounts.take(agent)
	h.node.admit(wireUser(agent), account)
	wire, err := h.node.connect(wireUser(agent), n.hubInbox())
	if err != nil {
		h.node.forgo(log, kept)
		return nil, err
	}
	l, err := openLink(linkConfig{
		name: "principal", peer: agent, wire: wire, log: log, copy: kept, sent: n.down(), heard: n.up(),
		answers: n.askDown(), asks: n.askUp(), says: n.streamsDown(), hears: n.streamsUp(),
		reachable: func() bool { return h.node.interest(account, n.askUp()) },
		session:   func() uint64 { return h.node.connected(h.guard.session(agent)) },
		sever:     h.node.sever,
		rival:     func(pause time.Duration) { h.guard.hold(agent, pause) },
		offend:    func(err error) { h.guard.callers.offend(agent, err) },
		presence:  h.config.Presence, heartbeat: h.config.Heartbeat,
		zap:     h.config.Logger.With(zap.String("agent", agent)),
		closing: func() {},
		closed: func() {
			h.node.forgo(log, kept)
			h.node.troubles.forget(agent)
			h.release(agent)
		},
	})
	if err != nil {
		wire.Close()
		h.node.forgo(log, kept)
		return nil, err
	}
	h.guard.register(agent, func() (*server.User, error) { return h.user(agent, account) })
	return l, nil
}

// wireUser is the user of this process's connection in that account.
func wireUser(agent string) string { return "wire." + agent }

// user returns what an agent may do: answer this hub, ask it, be answered, and use streams.
func (h *Hub) user(agent, in string) (*server.User, error) {
	n := names{agent}
	account, err := h.node.accountOf(h.node.current(), in)
	if err != nil {
		return nil, err
	}
	return &server.User{
		Username: agent, Account: account,
		Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{n.askDown(), n.hubInbox() + ".>", n.streamsUp(), anchor}},
			Subscribe: &server.SubjectPermission{Allow: []string{n.askUp(), n.agentInbox() + ".>", n.streamsDown(), anchor}},
		},
	}, nil
}

// Forget cuts an agent off and removes its streams.
func (h *Hub) Forget(ctx context.Context, agent string) error {
	if err := h.serving.Wait(ctx); err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("natslink: forget %.80q: %w", agent, cause(ctx, err)) }
	if err := h.claim(agent); err != nil {
		return fail(err)
	}
	defer h.release(agent)
	known := h.guard.remove(agent)
	h.node.dismiss(wireUser(agent))
	if account, had := h.accounts.leave(agent); had {
		if err := h.node.vacate(ctx, account); err != nil {
			return fail(err)
		}
		h.accounts.giveBack(account)
	}
	n := names{agent}
	for _, stream := range []string{n.downLog(), n.upCopy()} {
		deleted, err := h.delete(ctx, agent, stream)
		if err != nil {
			return fail(err)
		}
		known = known || deleted
	}
	h.node.troubles.forget(agent)
	if !known {
		return fail(transport.ErrUnknown)
	}
	return nil
}

// delete deletes a stream, and reports whether there was one.
func (h *Hub) delete(ctx context.Context, agent, stream string) (bool, error) {
	h.node.gate.RLock() // without which it may be there and not be known
	defer h.node.gate.RUnlock()
	err := h.store(agent).DeleteStream(ctx, stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrInvalidStreamName):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("delete stream %s: %w", stream, err)
	}
	return true, nil
}

// Kept returns the agents for which there is a stream, or that may connect.
func (h *Hub) Kept(ctx context.Context) ([]string, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return nil, err
	}
	kept := h.guard.agents()
	h.node.gate.RLock()
	defer h.node.gate.RUnlock()
	streams := h.stores[0].StreamNames(ctx)
	for name := range streams.Name() {
		if agent, ok := agentOf(name); ok {
			kept = append(kept, agent)
		}
	}
	if err := streams.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return nil, fmt.Errorf("natslink: list the streams: %w", cause(ctx, err))
	}
	slices.Sort(kept)
	return slices.Compact(kept), nil
}
