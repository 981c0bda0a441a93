package natslink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

// An embedded is the base of a Hub that is a server of NATS in this process, which agents connect
// to. It implements base.
type embedded struct {
	config   HubConfig
	node     *node
	guard    *guard
	entrance *entrance
	accounts *accounts

	conns     []*nats.Conn // to the store, set by open
	leave     func()       // ends the entrance
	websocket string       // where it listens, set by open; "" is nowhere
}

// newEmbedded returns an embedded. c was checked, but for its addresses.
func newEmbedded(c HubConfig) (*embedded, error) {
	host, port, err := splitAddress(c.Listen)
	if err != nil {
		return nil, err
	}
	if c.WebsocketListen != "" {
		if _, _, err := splitAddress(c.WebsocketListen); err != nil {
			return nil, err
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
			return nil, err
		}
		o.TLSConfig, o.TLSTimeout, o.TLSHandshakeFirst = c.Credentials.Server(), tlsTimeout.Seconds(), true
	}
	var n *node
	calls := newCallers(c.Logger, func(id uint64) uint64 { return n.connected(id) }, func(id uint64) { n.sever(id) })
	n = newNode(o, hubAccount, c.Logger, newTroubles(c.Alarms, c.StoreDir), calls.hear)
	g := newGuard(c.Authenticate, c.Credentials, calls, c.Logger)
	g.strangers = c.Strangers
	return &embedded{config: c, node: n, guard: g, entrance: newEntrance(c.Logger), accounts: &accounts{of: map[string]string{}}}, nil
}

// hubAccount is the account of the principal's server that all JetStream is in.
const hubAccount = "HUB"

func (e *embedded) open(context.Context) (stores []jetstream.JetStream, err error) {
	if err := prepareDir(e.config.StoreDir); err != nil {
		return nil, err
	}
	for _, address := range []string{e.config.Listen, e.config.ClientListen, e.config.MonitorListen} {
		if address != "" {
			if err := free(address); err != nil {
				return nil, err
			}
		}
	}
	e.guard.open()
	if err := e.node.start(e.admit); err != nil {
		return nil, err
	}
	e.leave = func() {}
	if stores, err = e.connect(); err == nil {
		err = e.enter()
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return stores, nil
}

// connect connects this process to the store.
func (e *embedded) connect() (stores []jetstream.JetStream, err error) {
	for range hubStores {
		nc, err := e.node.connect(storeUser, "_INBOX_store")
		if err != nil {
			return nil, err
		}
		e.conns = append(e.conns, nc)
		js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(requestPatience))
		if err != nil {
			return nil, fmt.Errorf("natslink: hub: %w", err)
		}
		stores = append(stores, js)
	}
	return stores, e.node.hearDeletions(e.conns[0])
}

func (e *embedded) keep(ctx context.Context, _ func(error)) {
	var all sync.WaitGroup
	all.Go(func() { (&keeper{node: e.node, admit: e.admit, anew: e.guard.restarted}).run(ctx) })
	all.Go(func() { e.guard.watch(ctx, e.node.sever) })
	all.Wait()
}

func (e *embedded) close() {
	e.leave()
	for _, nc := range e.conns {
		nc.Close()
	}
	e.guard.close()
	e.node.stop()
}

// admit decides on a connection to the server.
func (e *embedded) admit(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	return e.guard.admit(caller{
		id: c.GetID(), kind: c.Kind(), from: c.RemoteAddress(), tls: c.GetTLSConnectionState(), login: loginOf(o), says: saidBy(o),
		where: func() net.Addr { return e.entrance.origin(c.RemoteAddress()) },
		enter: func(agent string) error {
			u, err := e.user(agent)
			if err != nil {
				return err
			}
			c.RegisterUser(u)
			return nil
		},
	}) == nil
}

// way implements base.
func (e *embedded) way(agent string) (way, error) {
	account := e.accounts.take(agent)
	e.node.admit(wireUser(agent), account)
	nc, err := e.node.connect(wireUser(agent), names{agent}.hubInbox())
	if err != nil {
		return way{}, err
	}
	return way{
		wire:      newOwnWire(nc, names{agent}.hubInbox()),
		reachable: newEar(e.node, account, names{agent}.askUp()).hears,
		session:   func() uint64 { return e.node.connected(e.guard.session(agent)) },
		sever:     e.node.sever,
	}, nil
}

// wireUser is the user of this process's connection in that account.
func wireUser(agent string) string { return "wire." + agent }

// user returns what an agent may do: answer this hub, ask it, be answered, and use streams.
func (e *embedded) user(agent string) (*server.User, error) {
	account, err := e.node.accountOf(e.node.current(), e.accounts.take(agent))
	if err != nil {
		return nil, err
	}
	says, hears := names{agent}.rights()
	return &server.User{
		Username: agent, Account: account,
		Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: says},
			Subscribe: &server.SubjectPermission{Allow: hears},
		},
	}, nil
}

func (e *embedded) vacate(ctx context.Context, agent string) error {
	e.node.dismiss(wireUser(agent))
	account, had := e.accounts.leave(agent)
	if !had {
		return nil
	}
	if err := e.node.vacate(ctx, account); err != nil {
		return err
	}
	e.accounts.giveBack(account)
	return nil
}

// enter has agents come in by websocket, if they may, until leave is called.
func (e *embedded) enter() error {
	if e.config.WebsocketListen == "" {
		return nil
	}
	l, err := net.Listen("tcp", e.config.WebsocketListen)
	if err != nil {
		return fmt.Errorf("natslink: websockets: %w", err)
	}
	e.websocket = l.Addr().String()
	host, port, err := e.leafHostPort()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	c := tunnel.DoorConfig{Path: WebsocketPath, TLS: e.config.Credentials.EnvelopeServer()}
	leads := map[string]string{WebsocketPath: within(host, port)}
	if a, ok := e.node.current().Addr().(*net.TCPAddr); ok {
		c.Another = ClientWebsocketPath
		leads[c.Another] = within(a.IP.String(), strconv.Itoa(a.Port))
	}
	door := tunnel.Open(l, c)
	ctx, cancel := context.WithCancel(context.Background())
	var entered sync.WaitGroup
	entered.Go(func() { e.entrance.run(ctx, door, func(conn net.Conn) string { return leads[tunnel.PathOf(conn)] }) })
	e.leave = func() { cancel(); entered.Wait() }
	return nil
}

// leafHostPort returns where the server listens for agents.
func (e *embedded) leafHostPort() (host, port string, err error) {
	v, err := e.node.current().Varz(nil)
	if err != nil {
		return "", "", fmt.Errorf("natslink: hub: %w", err)
	}
	return v.LeafNode.Host, strconv.Itoa(v.LeafNode.Port), nil
}
