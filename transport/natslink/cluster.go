package natslink

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// Accounts of servers elsewhere, beside hubAccount: see deploy/nats.
const (
	agentsAccount = "AGENTS"
	systemAccount = "SYS"
)

// A ClusterConfig says which servers elsewhere a Hub stands on, and as whom it connects to them.
type ClusterConfig struct {
	// URLs are where clients connect: tls://host:port, or nats://host:port on the loopback
	// interface, without TLS. They are of one cluster.
	URLs []string
	// Credentials are what the servers are met with by tls URLs: a client's certificate, and the
	// CA of theirs. nil where there are none.
	Credentials *identity.Credentials
	// Renew keeps the Credentials what they are where they are kept, until ctx is done. nil is that
	// they stay.
	Renew func(ctx context.Context) error
	// User is the seed of the user that is the principal's in the account HUB; "" is that the
	// servers know it by its certificate.
	User string
	// Issuer is the seed of the account key that the servers' auth_callout names as issuer. In operator
	// mode it is that of the account HUB, or of one of its signing keys.
	Issuer string
	// XKey is the seed of the curve key to which the servers encrypt what they ask, as their auth_callout
	// or the account's JWT names it; "" is that they do not.
	XKey string
	// Operator is for servers in operator mode, of which User is not; nil is that servers have their
	// users in their configuration.
	Operator *OperatorConfig
	// Replicas is on how many servers each stream is: 1, 3 or 5.
	Replicas int
}

// Times of a cluster.
const (
	clusterPatience = 500 * time.Millisecond // for one answer about a stream: a server that is killed gives none
	clusterAttempts = 24                     // to get it: while a leader is chosen, too
	clusterAtDoor   = 2 * time.Second        // below the timeout of auth_callout
	kickEvery       = 250 * time.Millisecond // what is to be closed is closed again
	sweepEvery      = 10 * time.Second       // connections are compared with the servers' lists
	tendEvery       = 30 * time.Second       // streams are compared with what they should be
	reconnectPause  = 100 * time.Millisecond
)

// hubWires is how many connections the ways to all agents share.
const hubWires = 4

// A cluster is the base of a Hub that stands on servers elsewhere. It implements base.
type cluster struct {
	config HubConfig
	to     ClusterConfig
	realm  realm
	answer *callout
	calls  *calls
	guard  *guard
	lease  *lease
	*vault

	hub    []*nats.Conn // in the account HUB; these are set by open
	stores []jetstream.JetStream
	wires  []*nats.Conn // in AGENTS
	sys    atomic.Pointer[nats.Conn]
	kept   *roll
	began  time.Time

	reenterEvery time.Duration
}

// newCluster returns a cluster. c was checked.
func newCluster(c HubConfig) (*cluster, error) {
	k := &cluster{config: c, to: *c.Cluster, reenterEvery: reenterEvery}
	if err := k.to.Check(); err != nil {
		return nil, err
	}
	issuer, public, err := keyOf(k.to.Issuer, nkeys.PrefixByteAccount)
	if err != nil {
		return nil, fmt.Errorf("seed of the issuer: %w", err)
	}
	layout := k.configured
	if k.to.Operator != nil {
		layout = k.operated
	}
	if k.realm, err = layout(issuer); err != nil {
		return nil, err
	}
	k.vault = newVault("", newTroubles(c.Alarms, strings.Join(k.to.URLs, ",")))
	k.patience, k.attempts, k.replicas = clusterPatience, clusterAttempts, k.to.Replicas
	k.lease = newLease(c.Presence.Process, c.Logger)
	k.calls = newCalls(k.kick)
	k.guard = newGuard(c.Authenticate, c.Credentials, newCallers(c.Logger, k.calls.connected, k.calls.sever), c.Logger)
	k.guard.strangers, k.guard.patience, k.guard.single = c.Strangers, clusterAtDoor, true
	k.answer = &callout{
		issuer: issuer, public: public, realm: &k.realm, log: c.Logger, deciding: make(chan struct{}, maxDecisions),
		admit:     k.guard.admit,
		enter:     func(at string, cid uint64) uint64 { return k.calls.enter(endpoint{at, cid}, time.Now()) },
		let:       k.let,
		forgotten: k.calls.forget,
	}
	if k.to.XKey != "" {
		if k.answer.curve, k.answer.curvePublic, err = keyOf(k.to.XKey, nkeys.PrefixByteCurve); err != nil {
			return nil, fmt.Errorf("seed of the xkey: %w", err)
		}
	}
	return k, nil
}

func (k *cluster) open(ctx context.Context) (stores []jetstream.JetStream, err error) {
	k.began = time.Now()
	k.guard.open()
	if stores, err = k.connect(ctx); err != nil {
		k.close()
		return nil, err
	}
	return stores, nil
}

// connect connects to the servers, and has them ask who may connect.
func (k *cluster) connect(ctx context.Context) ([]jetstream.JetStream, error) {
	for _, step := range k.realm.steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return k.stores, k.hearDeletions(k.hub[0])
}

// store connects to where the streams are, and becomes the one principal there.
func (k *cluster) store(ctx context.Context) error {
	for i := range hubStores {
		nc, err := k.dial(ctx, i, "store", "_INBOX_store", k.realm.user)
		if err != nil {
			return k.barred(ctx, err)
		}
		k.hub = append(k.hub, nc)
		js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(2*clusterPatience))
		if err != nil {
			return fmt.Errorf("natslink: hub: %w", err)
		}
		k.stores = append(k.stores, js)
	}
	err := k.checkStore(ctx, k.stores[0])
	if err != nil {
		return err
	}
	if k.kept, err = openRoll(ctx, k.vault, k.stores[0]); err != nil {
		return err
	}
	return k.lease.take(ctx, k.stores[0], k.to.Replicas, k.hub)
}

// command connects to where connections are listed and closed.
func (k *cluster) command(ctx context.Context) error {
	sys, err := k.dial(ctx, 0, "system", "_INBOX_system", k.realm.system)
	if err != nil {
		return err
	}
	k.sys.Store(sys)
	return nil
}

// attend has the servers say which connections end.
func (k *cluster) attend(context.Context) error {
	for subject, f := range map[string]nats.MsgHandler{"$SYS.ACCOUNT." + k.realm.agents + ".DISCONNECT": k.ended, kicked + "*.*": k.missed} {
		if _, err := k.sys.Load().Subscribe(subject, f); err != nil {
			return fmt.Errorf("natslink: hear of connections: %w", err)
		}
	}
	return nil
}

// wire connects to where agents are.
func (k *cluster) wire(ctx context.Context) error {
	for i := range hubWires {
		nc, err := k.dial(ctx, i, "agents", "_INBOX_wire", k.asToken(agentsAccount))
		if err != nil {
			return err
		}
		k.wires = append(k.wires, nc)
	}
	return nil
}

// hear has the servers' questions answered, on connections to all of them: whoever was connected to one
// that is gone comes to another at once, this process too, and would be refused only after auth_callout's
// timeout if the one connection that hears of it was to the same.
func (k *cluster) hear(context.Context) error {
	for _, nc := range k.hub {
		_, err := nc.QueueSubscribe(server.AuthCalloutSubject, "principal", k.answer.take)
		if err == nil {
			err = nc.FlushTimeout(connectPatience)
		}
		if err != nil {
			return fmt.Errorf("natslink: answer who may connect: %w", err)
		}
	}
	return nil
}

func (k *cluster) close() {
	for _, nc := range append(k.wires, k.hub...) {
		nc.Close()
	}
	if sys := k.sys.Load(); sys != nil {
		sys.Close()
	}
	k.guard.close()
}

func (k *cluster) keep(ctx context.Context, unfit func(error)) {
	var all sync.WaitGroup
	all.Go(func() {
		if err := k.lease.keep(ctx); err != nil {
			unfit(err)
		}
	})
	all.Go(func() { k.guard.watch(ctx, k.calls.sever) })
	all.Go(func() { k.tend(ctx) })
	all.Go(func() { k.renew(ctx) })
	all.Go(func() { k.reenter(ctx) })
	all.Go(func() { k.sweep(ctx) })
	all.Go(func() {
		for sleep(ctx, kickEvery) == nil {
			k.calls.again(time.Now())
		}
	})
	all.Wait()
}

// renew keeps what the servers are met with.
func (k *cluster) renew(ctx context.Context) {
	if k.to.Renew == nil {
		return
	}
	if err := k.to.Renew(ctx); err != nil && ctx.Err() == nil {
		k.config.Logger.Error("the certificate that is shown to the NATS servers is not kept up to date", zap.Error(err))
	}
}

// way implements base.
func (k *cluster) way(agent string) (way, error) {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(agent)) // never fails
	session := func() uint64 { return k.calls.connected(k.guard.session(agent)) }
	return way{
		wire:      newSharedWire(k.wires[sum.Sum32()%hubWires], names{agent}.hubInbox()),
		inbox:     names{agent}.agentInbox() + ".",
		reachable: func() bool { return session() != 0 },
		session:   session,
		sever:     k.calls.sever,
	}, nil
}

func (k *cluster) vacate(ctx context.Context, agent string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopPatience, fmt.Errorf("connections do not end within %v", stopPatience))
	defer cancel()
	for {
		changed := k.calls.wait()
		if k.calls.severAll(agent) == 0 {
			k.kept.forget(agent)
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// let notes that a connection was let in.
func (k *cluster) let(agent string, id uint64, c *caller) {
	k.calls.let(id, agent)
	if e, ok := k.calls.endpoint(id); ok {
		k.kept.note(agent, entryOf(e, c))
	}
}

// kick asks a server to close a connection.
func (k *cluster) kick(e endpoint) {
	request, err := json.Marshal(server.KickClientReq{CID: e.CID})
	if err == nil {
		// A server does nothing that nobody awaits an answer to.
		reply := fmt.Sprintf("%s%s.%d", kicked, e.Server, e.CID)
		err = k.sys.Load().PublishRequest(fmt.Sprintf("$SYS.REQ.SERVER.%s.KICK", e.Server), reply, request)
	}
	if err != nil {
		k.config.Logger.Debug("cannot ask to close a connection; it is asked again", zap.Error(err))
	}
}

// kicked is the prefix of the subjects on which servers answer that they have closed a connection.
const kicked = "_INBOX_system.kicked."

// missed takes in the answer to a kick. One that has failed is of a connection that is not there,
// and nobody listens where the server is not.
func (k *cluster) missed(m *nats.Msg) {
	var answer server.ServerAPIResponse
	if len(m.Data) > 0 && (json.Unmarshal(m.Data, &answer) != nil || answer.Error == nil) {
		return
	}
	at, number, _ := strings.Cut(strings.TrimPrefix(m.Subject, kicked), ".")
	if cid, err := strconv.ParseUint(number, 10, 64); err == nil {
		k.calls.gone(endpoint{at, cid}, time.Now())
	}
}

// ended takes in what a server says of a connection that has ended.
func (k *cluster) ended(m *nats.Msg) {
	var e server.DisconnectEventMsg
	if err := json.Unmarshal(m.Data, &e); err != nil {
		k.config.Logger.Debug("a server says what is not understood", zap.Error(err))
		return
	}
	k.calls.ended(endpoint{e.Server.ID, e.Client.ID})
}

// recall takes in the connections that the process before has let in and that are there still. An
// agent that has shown no certificate has to prove its name again.
func (k *cluster) recall(ctx context.Context) error {
	there, err := k.list(ctx)
	if err != nil {
		return err
	}
	entries, err := k.kept.entries(ctx)
	if err != nil {
		k.config.Logger.Warn("it is not known who is connected; agents have to connect again", zap.Error(err))
	}
	for agent, e := range entries {
		if _, is := there[e.endpoint]; !is {
			continue
		}
		c, err := e.caller()
		if err == nil {
			c.id = k.calls.enter(e.endpoint, time.Now())
			k.calls.let(c.id, agent)
			err = k.guard.adopt(agent, c)
		}
		if err != nil {
			k.calls.sever(c.id)
			k.config.Logger.Info("an agent has to connect again", zap.String("agent", agent), zap.Error(err))
		}
	}
	return nil
}
