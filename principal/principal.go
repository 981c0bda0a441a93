package principal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/sync/journal"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// Config is what a Principal is made of. All fields but Mismatch, Key, Protocol, Ledger,
// Services, Journal, Witness and Paces are needed.
type Config struct {
	Identity string            // the hub's, the same for as long as its store lives
	Hub      transport.Hub     // its Run is called by Principal.Run
	Store    backend.Store     // all that the hub holds
	Registry backend.Registry  // the agents
	Mismatch resource.Mismatch // for the hub's copies of what autonomous agents made anew
	// Namespace is that of Argo CD on the hub: its projects, repositories and keys are there.
	Namespace string
	// Destination has the Applications of managed agents be those that name the agent in their
	// destination, in Namespace and in those that match one of Allowed, see
	// project.MatchNamespace. Else they are those in the namespace of the agent's name.
	Destination bool
	Allowed     []string
	Key         seal.Key       // for what is secret, see session.Config; zero is one of this Principal alone
	Protocol    wire.Range     // see session.Config
	SpokeRoles  bool           // see Placement.Roles
	Unscoped    bool           // see Placement.Unscoped
	Ledger      *ledger.Ledger // of dead letters, by agent; nil is one in memory
	Tick        time.Duration  // see session.Config
	Stale       time.Duration  // see engine.Config
	// Services returns those that an agent's process may open streams for; nil is none.
	Services func(agent string) proxy.Services
	Paces    *session.Paces // see session.Config
	// Journal remembers what has become of changes; nil is one of this Principal's own.
	Journal *journal.Journal
	// Witness returns who is told, besides, what becomes of the changes of an agent's objects; nil
	// is nobody.
	Witness func(agent string) trail.Witness
	Log     *zap.Logger
}

// A Principal keeps the hub's store in step with all agents.
type Principal struct {
	cfg   Config
	allot *allotment // nil under namespace mapping

	mu     sync.Mutex
	shown  bool // the registry has been
	listed bool // and who was served before
	ready  bool // all agents of one list were admitted, for which the hub has been listed
	seats  map[string]*seat
}

// New returns a Principal, which does nothing until Run is called.
func New(c Config) (*Principal, error) {
	switch {
	case c.Identity == "":
		return nil, errors.New("principal: no identity")
	case c.Hub == nil, c.Store == nil, c.Registry == nil, c.Log == nil:
		return nil, errors.New("principal: hub, store, registry and log are needed")
	case c.Namespace == "":
		return nil, errors.New("principal: no namespace")
	case c.Tick <= 0, c.Stale < 0:
		return nil, fmt.Errorf("principal: tick of %v, stale after %v", c.Tick, c.Stale)
	}
	if c.Key.Zero() {
		k, err := seal.New()
		if err != nil {
			return nil, fmt.Errorf("principal: %w", err)
		}
		c.Key = k
	}
	c.Protocol = cmp.Or(c.Protocol, wire.Spoken())
	if c.Ledger == nil {
		c.Ledger = ledger.InMemory()
	}
	if c.Journal == nil {
		var err error
		if c.Journal, err = journal.New(0); err != nil {
			return nil, fmt.Errorf("principal: %w", err)
		}
	}
	p := &Principal{cfg: c, seats: map[string]*seat{}}
	if c.Destination {
		p.allot = newAllotment(c.Store, c.Namespace, c.Allowed, c.Ledger.Set("met"), c.Log)
	}
	return p, nil
}

// Placement says which objects of the hub are those of an agent.
func (p *Principal) Placement(a AgentStatus) Placement {
	return p.placement(backend.Agent{Name: a.Name, Mode: a.Mode})
}

func (p *Principal) placement(a backend.Agent) Placement {
	return Placement{
		Agent: a.Name, Mode: a.Mode, Namespace: p.cfg.Namespace, Destination: p.cfg.Destination && a.Mode == resource.Managed,
		Roles: p.cfg.SpokeRoles, Unscoped: p.cfg.Unscoped,
	}
}

// Run serves agents until ctx is done, and returns its cause, or until the hub or the
// registry fails for good. Nothing that befalls one agent ends it. It is called once.
func (p *Principal) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	// The hub stays until the last session has ended: Links work only while it runs.
	served, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error {
		err := p.cfg.Hub.Run(served)
		if served.Err() != nil {
			return nil
		}
		return fmt.Errorf("principal: serve agents: %w", err)
	})
	sets := make(chan []backend.Agent)
	g.Go(func() error {
		err := p.cfg.Registry.Watch(ctx, func(set []backend.Agent) error {
			select {
			case sets <- set:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		return fmt.Errorf("principal: watch the registry: %w", err)
	})
	g.Go(func() error { return p.watch(ctx) })
	if p.allot != nil {
		g.Go(func() error { return p.allot.run(ctx) })
	}
	g.Go(func() error {
		defer stop()
		return p.follow(ctx, sets)
	})
	return g.Wait()
}

// Ready returns why the Principal does not serve the agents of its registry: they are not all
// admitted yet, because what the hub holds has not been listed, or the transport's store cannot
// be used. It is nil if it does. Agents that fail, or are away, are no reason; nor are those that
// come later, who are admitted one by one while the others are served.
func (p *Principal) Ready() error {
	if err := p.admitted(); err != nil {
		return err
	}
	for _, t := range p.Troubles("") {
		return fmt.Errorf("principal: %s: %w", t.What, t.Err)
	}
	return nil
}

func (p *Principal) admitted() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.listed:
	case p.shown: // who was served before is asked of the transport
		return errors.New("principal: the transport's store is not open yet")
	default:
		return errors.New("principal: the registry of agents has not been listed")
	}
	for name, s := range p.seats {
		if !p.ready && s.status.State == Starting {
			return fmt.Errorf("principal: agent %s is being admitted", name)
		}
	}
	p.ready = p.ready || len(p.seats) > 0
	return nil
}

// Agents returns how every agent stands, sorted by name.
func (p *Principal) Agents() []AgentStatus {
	p.mu.Lock()
	names := slices.Sorted(maps.Keys(p.seats))
	p.mu.Unlock()
	agents := make([]AgentStatus, 0, len(names))
	for _, name := range names {
		if a, err := p.Agent(name); err == nil { // it may have left just now
			agents = append(agents, a)
		}
	}
	return agents
}

// Agent returns how one agent stands.
func (p *Principal) Agent(name string) (AgentStatus, error) {
	p.mu.Lock()
	s := p.seats[name]
	if s == nil {
		p.mu.Unlock()
		return AgentStatus{}, fmt.Errorf("principal: agent %q: %w", name, ErrUnknown)
	}
	a, live := s.status, s.live
	p.mu.Unlock()
	if live != nil {
		a.Session = live.session.Status()
	}
	a.Troubles = p.Troubles(name)
	return a, nil
}

// Troubles returns what befalls what is kept for an agent, or for all of them; of "" only the
// latter.
func (p *Principal) Troubles(agent string) (out []transport.Trouble) {
	if hub, ok := p.cfg.Hub.(transport.Troubled); ok {
		for _, t := range hub.Troubles() {
			if t.Agent == "" || t.Agent == agent {
				out = append(out, t)
			}
		}
	}
	return out
}
