package simulation

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hubIdentity = "hub-1"

// A world is a hub and its agents. Every agent's objects are in the namespace of its name,
// on both sides.
type world struct {
	t      *testing.T
	f      fabric
	net    linktest.Network
	rules  resource.Rules
	spokes []*spoke

	cluster *memstore.Store // the hub's
	running bool            // the principal's process
}

// A spoke is one agent, its cluster, and what the principal has for it.
type spoke struct {
	w       *world
	name    string
	cluster *memstore.Store
	control *controller
	hub     half // at the principal
	agent   half // at the spoke
}

// A half is one side of one link. Its tap outlives its processes.
type half struct {
	tap
	*session.Session        // of the process that runs, or ran last
	stop             func() // nil if none runs
}

// newWorld returns a world with agents of one mode. Nothing runs but the controllers.
func newWorld(t *testing.T, f fabric, agents int, rules resource.Rules) *world {
	w := &world{t: t, f: f, net: f.network(t), rules: rules, cluster: memstore.New(memstore.Config{Name: "hub"})}
	for i := range agents {
		s := &spoke{w: w, name: fmt.Sprint("agent-", i)}
		s.cluster = memstore.New(memstore.Config{Name: s.name})
		s.control = startController(t, s.cluster)
		w.spokes = append(w.spokes, s)
	}
	t.Cleanup(w.stop)
	return w
}

// start starts the principal and all agents.
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
	if w.running {
		return
	}
	w.running = true
	hub := w.net.StartHub(w.t)
	for _, s := range w.spokes {
		s.hub.start(w, s, resource.Principal, w.cluster, func(ctx context.Context) (transport.Link, error) { return hub.Link(ctx, s.name) })
	}
}

func (w *world) stopHub() {
	if !w.running {
		return
	}
	w.running = false
	for _, s := range w.spokes {
		s.hub.end()
	}
	w.net.StopHub(w.t)
}

// start starts a process of the agent.
func (s *spoke) start() {
	if s.agent.stop == nil {
		s.agent.start(s.w, s, resource.Agent, s.cluster, s.w.net.StartAgent(s.w.t, s.name).Dial)
	}
}

func (s *spoke) stop() { s.agent.end() }

// start opens a link and runs a session on it.
func (h *half) start(w *world, s *spoke, side resource.Side, store backend.Store, open func(context.Context) (transport.Link, error)) {
	ctx, cancel := context.WithCancel(context.Background())
	link, err := open(ctx)
	require.NoError(w.t, err)
	c := engine.Config{Side: side, Rules: w.rules, Self: hubIdentity, Peer: s.name}
	if side == resource.Agent {
		c.Self, c.Peer = s.name, ""
	}
	h.Session, err = session.New(session.Config{
		Engine: c,
		Store:  tappedStore{store, &h.tap},
		Scope:  backend.Scope{Namespace: s.name},
		Link:   &tappedLink{Link: link, tap: &h.tap, last: map[string]uint64{}},
		Tick:   w.f.tick,
	})
	require.NoError(w.t, err)
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) })
	h.stop = func() {
		cancel()
		running.Wait()
		link.Close()
	}
}

func (h *half) end() {
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

func (s *spoke) fault(f linktest.Fault) { s.w.net.Fault(s.w.t, s.name, f) }

// key is that of one of the spoke's Applications, on either side.
func (s *spoke) key(name string) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: s.name, Name: name}
}

// owner returns the cluster where the spoke's originals are, and other the one of the
// copies.
func (s *spoke) owner() *memstore.Store {
	if s.w.rules.Mode == resource.Autonomous {
		return s.cluster
	}
	return s.w.cluster
}

func (s *spoke) other() *memstore.Store {
	if s.w.rules.Mode == resource.Autonomous {
		return s.w.cluster
	}
	return s.cluster
}

// await waits until ok, in the time of the fabric, but no longer than the limit.
func (w *world) await(limit time.Duration, what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
