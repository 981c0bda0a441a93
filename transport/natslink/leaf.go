package natslink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

// Time that the steps of connecting to the hub may take. A hub that has just come back has
// the handshakes of its whole fleet to make, and those that give up only add to that.
const (
	dialTimeout = 5 * time.Second
	tlsTimeout  = 10 * time.Second
	infoTimeout = 10 * time.Second
)

// linkAccount is the account that the connection to the hub is in. There is no JetStream
// in it, so the hub cannot reach the store.
const linkAccount = "LINK"

// A LeafConfig configures an agent's end.
type LeafConfig struct {
	Common
	// Agent is the agent's name. The hub must find the same in what proves it.
	Agent string
	// Connect is the host:port of the principal.
	Connect string
	// Proxy is the HTTP proxy by which the principal is reached; nil is none. The name in Connect
	// must be known here all the same, unless there is a Websocket.
	Proxy *url.URL
	// Websocket is the URL, ws or wss, by which Connect is reached in a websocket; nil is none.
	Websocket *url.URL
	// Credentials are what the principal is met with: the certificate is the agent's. Once they
	// are replaced it is met anew.
	Credentials *identity.Credentials
	// Says is what the principal is told of the agent if it does not know it, of at most
	// transport.MaxSaid bytes without a zero one; "" is nothing.
	Says string

	host  string // of Connect
	watch watch
	route tunnel.Route
}

// A Leaf is an agent's end: a NATS server in this process, which joins the principal's as
// a leaf node and keeps on its own disk what is said in both directions. It implements
// transport.Dialer.
type Leaf struct {
	config   LeafConfig
	troubles *troubles
	squeeze  *squeezer

	mu   sync.Mutex
	open *dialed
}

// A dialed is what belongs to the open Link of a Leaf.
type dialed struct {
	node    *node
	bridge  *bridge         // nil if there is none
	renewed <-chan struct{} // closed when it is connected by credentials that are the last no more
	store   *nats.Conn
	link    *link
}

// NewLeaf returns a Leaf. Nothing happens before Dial.
func NewLeaf(c LeafConfig) (*Leaf, error) {
	fail := func(err error) (*Leaf, error) { return nil, fmt.Errorf("natslink: leaf: %w", err) }
	common, err := c.check()
	if err == nil && c.StoreDir == "" {
		err = errNoDir
	}
	if err != nil {
		return fail(err)
	}
	c.Common = common
	if c.watch == (watch{}) {
		c.watch = usualWatch()
	}
	if c.host, c.route, err = wayTo(c.Agent, c.Connect, c.Proxy, c.Websocket, c.Credentials, c.Says); err != nil {
		return fail(err)
	}
	squeeze, err := newSqueezer()
	if err != nil {
		return fail(err)
	}
	return &Leaf{config: c, troubles: newTroubles(c.Alarms, c.StoreDir), squeeze: squeeze}, nil
}

// Dial starts the server on what its store holds, and opens the Link. Close of the Link
// stops it.
func (l *Leaf) Dial(ctx context.Context) (transport.Link, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		return nil, errors.New("natslink: the link to the principal is open already")
	}
	if err := prepareDir(l.config.StoreDir); err != nil {
		return nil, err
	}
	if address := l.config.MonitorListen; address != "" {
		if err := free(address); err != nil {
			return nil, err
		}
	}
	o, err := l.config.options()
	if err != nil {
		return nil, err
	}
	d := &dialed{renewed: l.config.Credentials.Changed(), node: newNode(o, "STORE", l.config.Logger, l.troubles, nobody)}
	if d.bridge, err = l.config.bridge(o); err != nil {
		return nil, err
	}
	if err := d.node.start(refuseAll); err != nil {
		d.bridge.close()
		return nil, err
	}
	if err := l.dial(ctx, d); err != nil {
		if d.store != nil {
			d.store.Close()
		}
		d.stop()
		return nil, cause(ctx, err)
	}
	l.open = d
	return d.link, nil
}

// stop stops the server.
func (d *dialed) stop() {
	d.node.stop()
	d.bridge.close()
}

// bridge returns the bridge by which a server with these options reaches the principal, nil if
// there is none.
func (c LeafConfig) bridge(o *server.Options) (*bridge, error) {
	if c.Websocket == nil {
		return nil, nil
	}
	b, err := openBridge(func(ctx context.Context) (net.Conn, error) { return c.route.Dial(ctx, c.Connect) })
	if err == nil {
		b.lead(o.LeafNode.Remotes[0])
	}
	return b, err
}

// refuseAll refuses connections from outside. An agent's server listens to none.
func refuseAll(server.ClientAuthentication) bool { return false }

func (c LeafConfig) options() (*server.Options, error) {
	accounts, err := anchored(linkAccount)
	if err != nil {
		return nil, err
	}
	o := c.serverOptions(c.Agent, c.Agent)
	o.Accounts = accounts
	o.LeafNode = server.LeafNodeOpts{
		// The server adds a random time of up to as much.
		ReconnectInterval: c.Heartbeat / 16,
		Remotes: []*server.RemoteLeafOpts{{
			LocalAccount: linkAccount,
			URLs:         []*url.URL{{Scheme: "tls", Host: c.Connect}},
			TLS:          true, TLSConfig: c.Credentials.Client(c.host), TLSTimeout: tlsTimeout.Seconds(), TLSHandshakeFirst: true,
			DialTimeout: dialTimeout, FirstInfoTimeout: infoTimeout,
			Compression: server.CompressionOpts{Mode: server.CompressionOff},
			SignatureCB: sayLogin(c.Credentials, c.Says),
		}},
	}
	if c.Proxy != nil && c.Websocket == nil {
		to := &o.LeafNode.Remotes[0].Proxy
		to.URL, to.Timeout = (&url.URL{Scheme: c.Proxy.Scheme, Host: tunnel.Address(c.Proxy)}).String(), dialTimeout
		to.Username = c.Proxy.User.Username()
		to.Password, _ = c.Proxy.User.Password()
	}
	return o, nil
}

// renew has the principal met anew whenever the credentials have been replaced.
func renew(ctx context.Context, own *identity.Credentials, renewed <-chan struct{}, anew func()) {
	for {
		select {
		case <-renewed:
			renewed = own.Changed()
			anew()
		case <-ctx.Done():
			return
		}
	}
}

func (l *Leaf) dial(ctx context.Context, d *dialed) error {
	var err error
	if d.store, err = d.node.connect(storeUser, "_INBOX_store"); err != nil {
		return err
	}
	js, err := jetstream.New(d.store, jetstream.WithPublishAsyncTimeout(requestPatience))
	if err != nil {
		return fmt.Errorf("natslink: leaf: %w", err)
	}
	if err := d.node.hearDeletions(d.store); err != nil {
		return err
	}
	n := names{l.config.Agent}
	log, err := newStream(ctx, d.node.vault, js, l.config.stream(l.config.Agent, partLog, n.upLog(), n.up()))
	if err != nil {
		return err
	}
	kept, err := newStream(ctx, d.node.vault, js, l.config.stream(l.config.Agent, partCopy, n.downCopy(), n.down()))
	if err != nil {
		return err
	}
	d.node.admit(wireUser(l.config.Agent), linkAccount)
	wire, err := d.node.connect(wireUser(l.config.Agent), n.agentInbox())
	if err != nil {
		return err
	}
	watch := newWatchdog(l.config, d.node)
	keep, stop := context.WithCancel(context.Background())
	var keeping sync.WaitGroup
	d.link, err = openLink(linkConfig{
		name: l.config.Agent, peer: "principal", wire: newOwnWire(wire, n.agentInbox()), log: log, copy: kept, sent: n.up(), heard: n.down(),
		answers: n.askUp(), asks: n.askDown(), says: n.streamsUp(), hears: n.streamsDown(),
		reachable: newEar(d.node, linkAccount, n.askDown()).hears,
		session:   d.node.upstream,
		sever:     d.node.sever,
		rival:     func(time.Duration) {}, // there is one principal at an address
		offend:    func(error) {},         // and it has the agent do what it likes
		presence:  l.config.Presence, heartbeat: l.config.Heartbeat, trust: l.config.Heartbeat, squeeze: l.squeeze,
		zap:     l.config.Logger.With(zap.String("agent", l.config.Agent)),
		closing: func() {},
		closed: func() {
			watch.stop()
			stop()
			keeping.Wait()
			d.node.forgo(log, kept)
			d.store.Close()
			d.stop()
			l.troubles.clear()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.open = nil
		},
	})
	if err != nil {
		stop()
		wire.Close()
		return err
	}
	keeping.Go(func() { (&keeper{node: d.node, admit: refuseAll, anew: func() {}, alone: true}).run(keep) })
	keeping.Go(func() { renew(keep, l.config.Credentials, d.renewed, func() { d.node.sever(d.node.upstream()) }) })
	watch.start(d.link.with)
	return nil
}
