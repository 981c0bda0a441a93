package simulation

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

// TestMain has more stories told at once than there are processors: over a real transport
// they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const (
	hubIdentity = "hub-1"
	argocd      = "argocd" // the namespace of Argo CD on every spoke
)

// A world is a hub and its agents, all of one mode.
type world struct {
	t      *testing.T
	f      fabric
	net    linktest.Network
	speaks speeches
	mode   resource.Mode
	spokes []*spoke
	view   func(backend.Store) backend.Store // what the principal sees of its cluster
	log    *zap.Logger                       // of the principal
	ledger *ledger.Ledger                    // of the principal's dead letters

	cluster   *memstore.Store      // the hub's
	principal *principal.Principal // that runs, or ran last
	stopping  func()               // ends it; nil if none runs
}

// A spoke is one agent and its cluster.
type spoke struct {
	w       *world
	name    string
	cluster *memstore.Store
	control *controller
	ledger  *ledger.Ledger
	up      tap // of the principal's session with the agent
	down    tap // of the agent

	agent    *agent.Agent // that runs, or ran last
	stopping func()       // ends it; nil if none runs
}

// newWorld returns a world with agents of one mode. Nothing runs but the controllers.
func newWorld(t *testing.T, f fabric, agents int, mode resource.Mode) *world {
	speaks := speeches{}
	w := &world{
		t: t, f: f, net: f.network(t, speaks), speaks: speaks, mode: mode,
		cluster: memstore.New(memstore.Config{Name: "hub"}), log: zap.NewNop(), ledger: ledger.InMemory(),
	}
	w.view = func(s backend.Store) backend.Store { return s }
	for i := range agents {
		s := &spoke{w: w, name: fmt.Sprint("agent-", i), ledger: ledger.InMemory()}
		s.cluster = memstore.New(memstore.Config{Name: s.name})
		s.control = startController(t, s.cluster)
		w.spokes = append(w.spokes, s)
	}
	t.Cleanup(w.stop)
	return w
}

// start starts the principal and all agents that do not run.
func (w *world) start() {
	w.startHub()
	for _, s := range w.spokes {
		s.start()
	}
}

func (w *world) stop() {
	w.stopHub()
	for _, s := range w.spokes {
		s.stop()
	}
}

// startHub starts a process of the principal.
func (w *world) startHub() {
	if w.stopping != nil {
		return
	}
	p, err := principal.New(principal.Config{
		Namespace: "argocd",
		Identity:  hubIdentity,
		Hub:       tappedHub{w.net.StartHub(w.t), w},
		Store:     w.view(tappedStore{w.cluster, func(k resource.Key) *tap { return &w.spoke(k.Namespace).up }}),
		Registry:  w,
		Protocol:  w.speaks.of(hub),
		Ledger:    w.ledger,
		Tick:      w.f.tick,
		Log:       w.log,
	})
	require.NoError(w.t, err)
	stop := w.run(p.Run)
	w.principal, w.stopping = p, func() {
		stop()
		w.net.StopHub(w.t)
	}
}

func (w *world) stopHub() {
	if w.stopping != nil {
		w.stopping()
		w.stopping = nil
	}
}

// start starts a process of the agent.
func (s *spoke) start() {
	if s.stopping != nil {
		return
	}
	a, err := agent.New(agent.Config{
		Name:      s.name,
		Namespace: argocd,
		Dialer:    tappedDialer{s.w.net.StartAgent(s.w.t, s.name), &s.down},
		Store:     tappedStore{s.cluster, func(resource.Key) *tap { return &s.down }},
		Rules:     resource.Rules{Mode: s.w.mode, Adopt: true},
		Protocol:  s.w.speaks.of(s.name),
		Letters:   s.ledger.Book("principal"),
		Tick:      s.w.f.tick,
		Log:       zap.NewNop(),
	})
	require.NoError(s.w.t, err)
	s.agent, s.stopping = a, s.w.run(a.Run)
}

func (s *spoke) stop() {
	if s.stopping != nil {
		s.stopping()
		s.stopping = nil
	}
}

// run runs a program until the function that it returns is called.
func (w *world) run(program func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- program(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			w.t.Errorf("a program has failed: %v", err)
		}
	}
}

// Watch implements backend.Registry: all agents are registered from the beginning.
func (w *world) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	var all []backend.Agent
	for _, s := range w.spokes {
		all = append(all, backend.Agent{Name: s.name, Mode: w.mode})
	}
	if err := f(all); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// spoke returns the one of that name.
func (w *world) spoke(name string) *spoke {
	for _, s := range w.spokes {
		if s.name == name {
			return s
		}
	}
	panic("no agent has the namespace " + name)
}

func (s *spoke) fault(f linktest.Fault) { s.w.net.Fault(s.w.t, s.name, f) }

// cut cuts the line, and waits until both sides have noticed.
func (s *spoke) cut() {
	s.fault(linktest.Cut)
	s.w.await(s.w.f.patience, "the cut is noticed", func() bool {
		return !s.upper().Connected && !s.lower().Connected
	})
}

// upper returns how the principal's session with the agent stands; lower how the agent's
// does.
func (s *spoke) upper() session.Status {
	for _, a := range s.w.principal.Agents() {
		if a.Name == s.name {
			return a.Session
		}
	}
	return session.Status{}
}

func (s *spoke) lower() session.Status { return s.agent.Status() }

// await waits until ok, in the time of the fabric, but no longer than the limit.
func (w *world) await(limit time.Duration, what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within %v: %s\n%s", limit, what, w.explain())
		}
	}
}

// A tappedHub is a Hub that runs already and whose links are tapped.
type tappedHub struct {
	transport.Hub
	w *world
}

// Run implements transport.Hub.
func (tappedHub) Run(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Link implements transport.Hub.
func (h tappedHub) Link(ctx context.Context, agent string) (transport.Link, error) {
	l, err := h.Hub.Link(ctx, agent)
	return h.w.spoke(agent).up.on(l), err
}

// A tappedDialer is a Dialer whose links are tapped.
type tappedDialer struct {
	transport.Dialer
	*tap
}

// Dial implements transport.Dialer.
func (d tappedDialer) Dial(ctx context.Context) (transport.Link, error) {
	l, err := d.Dialer.Dial(ctx)
	return d.on(l), err
}

// watch calls f for every object that a cluster shows from now on, until the test ends.
func (w *world) watch(c *memstore.Store, f func(resource.Object)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		c.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
			if e.Put != nil {
				f(*e.Put)
			}
			return nil
		})
	})
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}
