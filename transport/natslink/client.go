package natslink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

// A ClientConfig configures an agent's end that runs no server.
type ClientConfig struct {
	// Common says what both ends do. In its StoreDir is the copy only; MaxStore, SyncAlways and
	// MonitorListen are a server's, and of no use.
	Common
	// Agent is the agent's name. The hub must find the same in what proves it.
	Agent string
	// Connect is the host:port of the principal: see HubConfig.ClientListen.
	Connect string
	// Proxy is the HTTP proxy by which the principal is reached; nil is none.
	Proxy *url.URL
	// Websocket is the URL, ws or wss, by which Connect is reached in a websocket; nil is none.
	Websocket *url.URL
	// Credentials are what the principal is met with: the certificate is the agent's. Once they
	// are replaced it is met anew.
	Credentials *identity.Credentials
	// Says is what the principal is told of the agent if it does not know it, see LeafConfig.
	Says string

	host  string // of Connect
	route tunnel.Route
}

// A Client is an agent's end without a server of its own: a client of the principal's. What it
// says is in memory only, what it hears is kept in a file. It implements transport.Dialer.
type Client struct {
	config   ClientConfig
	troubles *troubles
	squeeze  *squeezer

	mu   sync.Mutex
	open *link
}

// NewClient returns a Client. Nothing happens before Dial.
func NewClient(c ClientConfig) (*Client, error) {
	common, err := c.check()
	if err == nil && c.StoreDir == "" {
		err = errNoDir
	}
	if err == nil {
		c.Common = common
		c.host, c.route, err = wayTo(c.Agent, c.Connect, c.Proxy, c.Websocket, c.Credentials, c.Says)
	}
	if err != nil {
		return nil, fmt.Errorf("natslink: client: %w", err)
	}
	squeeze, err := newSqueezer()
	if err != nil {
		return nil, err
	}
	return &Client{config: c, troubles: newTroubles(c.Alarms, c.StoreDir), squeeze: squeeze}, nil
}

// wayTo returns the host that an agent connects to, and how it gets there, if all is well.
func wayTo(agent, connect string, proxy, websocket *url.URL, own *identity.Credentials, says string) (host string, r tunnel.Route, err error) {
	if err := identity.CheckName(agent); err != nil {
		return "", r, err
	}
	if own == nil {
		return "", r, errors.New("credentials are needed")
	}
	if own.Plain() {
		return "", r, errPlain
	}
	if len(says) > transport.MaxSaid || strings.ContainsRune(says, 0) {
		return "", r, errors.New("what the agent says of itself is too long, or has a zero byte")
	}
	if host, _, err = net.SplitHostPort(connect); err != nil {
		return "", r, err
	}
	r = tunnel.Route{Proxy: proxy, Websocket: websocket, TLS: own.EnvelopeClient}
	return host, r, errors.Join(own.Claims(agent), r.Check())
}

// Dial opens the Link on what the copy holds. Close of the Link gives up both.
func (c *Client) Dial(ctx context.Context) (transport.Link, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open != nil {
		return nil, errors.New("natslink: the link to the principal is open already")
	}
	kept, err := openFile(c.config.stream(c.config.Agent, partCopy, names{c.config.Agent}.downCopy(), names{c.config.Agent}.down()), c.troubles)
	if err != nil {
		return nil, err
	}
	l, err := c.link(kept)
	if err != nil {
		return nil, errors.Join(err, kept.close())
	}
	c.open = l
	return l, nil
}

// link opens the Link on a copy.
func (c *Client) link(kept *file) (*link, error) {
	t, err := c.config.trunk()
	if err != nil {
		return nil, err
	}
	n := names{c.config.Agent}
	renewed := c.config.Credentials.Changed()
	keep, stop := context.WithCancel(context.Background())
	var keeping sync.WaitGroup
	l, err := openLink(linkConfig{
		name: c.config.Agent, peer: "principal", wire: newOwnWire(t.Conn, n.agentInbox()), sent: n.up(), heard: n.down(),
		log: newMemory(c.config.stream(c.config.Agent, partLog, n.upLog(), n.up()), c.troubles), copy: kept,
		answers: n.askUp(), asks: n.askDown(), says: n.streamsUp(), hears: n.streamsDown(),
		reachable: func() bool { return t.session() != 0 },
		session:   t.session,
		sever:     t.sever,
		rival:     func(time.Duration) {}, // there is one principal at an address
		offend:    func(error) {},         // and it has the agent do what it likes
		presence:  c.config.Presence, heartbeat: c.config.Heartbeat, trust: c.config.Heartbeat, squeeze: c.squeeze,
		zap:     c.config.Logger.With(zap.String("agent", c.config.Agent)),
		closing: t.hangUp,
		closed: func() {
			stop()
			keeping.Wait()
			_ = kept.close() // what was stored is on disk
			c.troubles.clear()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.open = nil
		},
	})
	if err != nil {
		stop()
		t.hangUp()
		t.Close()
		return nil, err
	}
	keeping.Go(func() { renew(keep, c.config.Credentials, renewed, func() { t.sever(t.session()) }) })
	t.begin()
	return l, nil
}

// trunk returns the connection, which is not begun yet.
func (c ClientConfig) trunk() (*trunk, error) {
	within := dialTimeout + tlsTimeout
	dial := overTLS(func(ctx context.Context) (net.Conn, error) { return c.route.Dial(ctx, c.Connect) }, c.Credentials.Client(c.host), within)
	return openTrunk(dial, c.Heartbeat, c.Logger,
		nats.Name(named(c.Agent, c.Says)),
		nats.CustomInboxPrefix(names{c.Agent}.agentInbox()),
		nats.UserInfoHandler(func() (user, password string) {
			l := c.Credentials.Login()
			return l.User, l.Password
		}),
	)
}

// State returns how the Link to the principal is. The Link must be open.
func (c *Client) State(ctx context.Context) (State, error) {
	c.mu.Lock()
	open := c.open
	c.mu.Unlock()
	if open == nil {
		return State{}, fmt.Errorf("natslink: client: %w", transport.ErrClosed)
	}
	return open.state(ctx)
}

// Troubles returns what is wrong with what the agent keeps, while its Link is open. It
// implements transport.Troubled.
func (c *Client) Troubles() []transport.Trouble { return c.troubles.list() }
