package natslink

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// A HubConfig configures the principal's end.
type HubConfig struct {
	Common
	// Cluster says which servers elsewhere agents connect to. nil is that there is a server in this
	// process, for which alone the addresses below are, and of Common the StoreDir, MaxStore,
	// SyncAlways and MonitorListen.
	Cluster *ClusterConfig
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

// A Hub is the principal's end: a NATS server in this process, or a cluster of them elsewhere, with
// a pair of streams for each agent. It implements transport.Hub.
type Hub struct {
	config  HubConfig
	base    base
	vault   *vault
	guard   *guard
	squeeze *squeezer
	serving transport.Serving

	*embedded // nil if there is no server in this process

	stores []jetstream.JetStream // set before it serves

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
	if c.Cluster != nil {
		if c.StoreDir != "" || c.Listen != "" || c.ClientListen != "" || c.WebsocketListen != "" || c.MonitorListen != "" {
			return fail(errors.New("where the servers are elsewhere, nothing is kept or listened to here"))
		}
	} else if c.StoreDir == "" {
		return fail(errNoDir)
	}
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
	h := &Hub{config: c, serving: transport.NewServing(), links: map[string]*link{}}
	if h.squeeze, err = newSqueezer(); err != nil {
		return fail(err)
	}
	if c.Cluster != nil {
		k, err := newCluster(c)
		if err != nil {
			return fail(err)
		}
		h.base, h.vault, h.guard = k, k.vault, k.guard
		return h, nil
	}
	h.embedded, err = newEmbedded(c)
	if err != nil {
		return fail(err)
	}
	h.base, h.vault, h.guard = h.embedded, h.node.vault, h.embedded.guard
	return h, nil
}

// maxTrusted is for how many heartbeats an ask of the principal's waits at an agent that says that it has
// it. The agent asks with each.
const maxTrusted = 7

// Run serves agents until ctx is done, or another principal has taken its place on servers elsewhere. It
// may be called once. A store or a server that fails meanwhile does not end it: see Troubles.
func (h *Hub) Run(ctx context.Context) (err error) {
	defer h.serving.End()
	if h.stores, err = h.base.open(ctx); err != nil {
		return err
	}
	defer h.base.close()
	h.serving.Begin()
	// The base is kept until the last Link is closed.
	kept, stop := context.WithCancel(context.WithoutCancel(ctx))
	ctx, unfit := context.WithCancelCause(ctx)
	defer unfit(nil)
	var keeping sync.WaitGroup
	keeping.Go(func() { h.base.keep(kept, func(why error) { err = why; unfit(why) }) })
	<-ctx.Done()
	h.closeLinks()
	stop()
	keeping.Wait()
	return err
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
	log, err := newStream(ctx, h.vault, js, h.config.stream(agent, partLog, n.downLog(), n.down()))
	if err != nil {
		return nil, err
	}
	kept, err := newStream(ctx, h.vault, js, h.config.stream(agent, partCopy, n.upCopy(), n.up()))
	if err != nil {
		h.vault.forgo(log)
		return nil, err
	}
	to, err := h.base.way(agent)
	if err != nil {
		h.vault.forgo(log, kept)
		return nil, err
	}
	l, err := openLink(linkConfig{
		name: "principal", peer: agent, wire: to.wire, log: log, copy: kept, sent: n.down(), heard: n.up(),
		answers: n.askDown(), asks: n.askUp(), says: n.streamsDown(), hears: n.streamsUp(), inbox: to.inbox,
		reachable: to.reachable, session: to.session, sever: to.sever,
		rival:    func(pause time.Duration) { h.guard.hold(agent, pause) },
		offend:   func(err error) { h.guard.callers.offend(agent, err) },
		presence: h.config.Presence, heartbeat: h.config.Heartbeat, trust: min(maxTrusted*h.config.Heartbeat, maxHold), squeeze: h.squeeze,
		zap:     h.config.Logger.With(zap.String("agent", agent)),
		closing: func() {},
		closed: func() {
			h.vault.forgo(log, kept)
			h.vault.troubles.forget(agent)
			h.release(agent)
		},
	})
	if err != nil {
		to.wire.Close()
		h.vault.forgo(log, kept)
		return nil, err
	}
	h.guard.register(agent)
	return l, nil
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
	if err := h.base.vacate(ctx, agent); err != nil {
		return fail(err)
	}
	n := names{agent}
	for _, stream := range []string{n.downLog(), n.upCopy()} {
		deleted, err := h.delete(ctx, agent, stream)
		if err != nil {
			return fail(err)
		}
		known = known || deleted
	}
	h.vault.troubles.forget(agent)
	if !known {
		return fail(transport.ErrUnknown)
	}
	return nil
}

// delete deletes a stream, and reports whether there was one.
func (h *Hub) delete(ctx context.Context, agent, stream string) (bool, error) {
	h.vault.gate.RLock() // without which it may be there and not be known
	defer h.vault.gate.RUnlock()
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
	h.vault.gate.RLock()
	defer h.vault.gate.RUnlock()
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
