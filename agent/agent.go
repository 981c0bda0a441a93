// Package agent is the spoke: one session with the principal, which keeps the agent's
// namespace, and under destination mapping others, in step with it whenever it is in reach,
// and with what was last heard of it whenever it is not. Where its objects are is said by
// Placement, which is pure.
package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/journal"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/observe"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// Config is what an Agent is made of. All fields but Destination, Allowed,
// Expiry, Key, Protocol, Letters, Cluster, Adopted, Journal, Witness, Services and Paces are needed.
type Config struct {
	Name      string // as the principal has registered it
	Namespace string // of Argo CD, and of the objects that are kept in step
	// Destination has the Applications of the principal's other namespaces be in those of the
	// same name, as far as they match one of Allowed: see Placement.
	Destination bool
	Allowed     []string
	Dialer      transport.Dialer
	Store       backend.Store
	Rules       resource.Rules // its Mode as the principal has registered it
	Expiry      time.Duration  // of requests to run something, see engine.Config
	Tick        time.Duration  // see session.Config
	Key         seal.Key       // for what is secret, see session.Config
	Protocol    wire.Range     // see session.Config
	Letters     *ledger.Book   // the dead letters; nil keeps them in memory
	// Cluster returns what the cluster says of itself, which the hub's users are shown; nil is
	// that of an agent without one.
	Cluster func(context.Context) (inquiry.Cluster, error)
	// Adopted, if it is set, has the Agent only observe: it writes nothing on its cluster but
	// what is in this list, which the principal's user changes.
	Adopted observe.List
	// Journal remembers what has become of changes; nil is one of this Agent's own.
	Journal *journal.Journal
	// Witness is told what becomes of changes besides; nil is nobody.
	Witness trail.Witness
	// Services are those that the principal's process may open streams for, beside inquiries.
	Services proxy.Services
	Paces    *session.Paces // see session.Config
	Log      *zap.Logger
}

// An Agent keeps one namespace in step with the principal.
type Agent struct {
	cfg     Config
	store   backend.Store  // as the session sees it
	gate    *observe.Store // the store, if this Agent only observes
	cluster *board
	book    journal.Book
	began   time.Time
	session atomic.Pointer[session.Session]
	streams atomic.Pointer[transport.Streams]
	listed  atomic.Bool // the store has been
}

// New returns an Agent, which does nothing until Run is called.
func New(c Config) (*Agent, error) {
	switch {
	case c.Name == "", c.Namespace == "":
		return nil, errors.New("agent: a name and a namespace are needed")
	case c.Dialer == nil, c.Store == nil, c.Log == nil:
		return nil, errors.New("agent: dialer, store and log are needed")
	case c.Destination && c.Rules.Mode != resource.Managed:
		return nil, errors.New("agent: destination mapping is for managed agents")
	case c.Tick <= 0, c.Expiry < 0:
		return nil, fmt.Errorf("agent: tick of %v, expiry of %v", c.Tick, c.Expiry)
	}
	if c.Letters == nil {
		c.Letters = ledger.InMemory().Book("principal")
	}
	if c.Journal == nil {
		var err error
		if c.Journal, err = journal.New(0); err != nil {
			return nil, fmt.Errorf("agent: %w", err)
		}
	}
	a := &Agent{cfg: c, cluster: newBoard(), book: c.Journal.Book("principal")}
	a.store = a.place().view(c.Store, func() { a.listed.Store(true) })
	if c.Adopted != nil {
		a.gate = observe.New(a.store, c.Adopted)
		a.store = a.gate
	}
	return a, nil
}

func (a *Agent) place() Placement {
	return Placement{Namespace: a.cfg.Namespace, Destination: a.cfg.Destination, Allowed: a.cfg.Allowed}
}

// Run works until ctx is done, and returns its cause, or until the store or the link
// fails for good. A principal that is away is no failure. It is called once.
func (a *Agent) Run(ctx context.Context) error {
	link, err := a.cfg.Dialer.Dial(ctx)
	if err != nil {
		return fmt.Errorf("agent: open the link to the principal: %w", err)
	}
	defer link.Close() // nothing is lost by a link that does not close well
	s, err := session.New(session.Config{
		Engine:   engine.Config{Side: resource.Agent, Rules: a.cfg.Rules, Self: a.cfg.Name, Expiry: a.cfg.Expiry},
		Store:    a.store,
		Link:     link,
		Tick:     a.cfg.Tick,
		Log:      a.cfg.Log,
		Key:      a.cfg.Key,
		Protocol: a.cfg.Protocol,
		Letters:  a.cfg.Letters,
		Paces:    a.cfg.Paces,
		Witness:  trail.Both(a.book, a.cfg.Witness),
	})
	if err != nil {
		return fmt.Errorf("agent: session: %w", err)
	}
	a.began = time.Now()
	a.session.Store(s)
	streams := link.Streams()
	a.streams.Store(&streams)
	ctx, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	beside.Go(func() { a.watch(ctx) })
	if a.cfg.Cluster != nil {
		beside.Go(func() { a.cluster.follow(ctx, a.cfg.Cluster, a.cfg.Log) })
	}
	beside.Go(func() { a.serve(ctx, streams) })
	return s.Run(ctx)
}

// Ready returns why the Agent does not keep its namespace in step; nil if it does. A
// principal that is away is no reason: what was last heard of it stays in force.
func (a *Agent) Ready() error {
	s := a.session.Load()
	switch {
	case s == nil:
		return errors.New("agent: the link's store is not open yet")
	case !a.listed.Load():
		return errors.New("agent: the cluster's objects have not been listed yet")
	}
	if err := s.Status().Err; err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// Status returns how the session stands; the zero Status before there is one.
func (a *Agent) Status() session.Status {
	if s := a.session.Load(); s != nil {
		return s.Status()
	}
	return session.Status{}
}
