package session_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const agentName = "spoke"

// A rig is a principal and one managed agent, on memory, within a bubble of synctest.
type rig struct {
	t          *testing.T
	net        *memlink.Network
	hub, spoke *side
}

// A side is one of the two, with what a test may put between its session and the world.
type side struct {
	r       *rig
	engine  engine.Config
	speaks  wire.Range // what the next process does
	version string     // of its program
	key     seal.Key
	cluster *memstore.Store
	store   backend.Store                       // of the session
	wrap    func(transport.Link) transport.Link // of its link
	tune    func(*session.Config)
	*session.Session
	link transport.Link
	stop func() error // returns what Run has returned
}

// newRig returns a rig whose sessions do not run yet.
func newRig(t *testing.T) *rig {
	r := &rig{t: t, net: memlink.New(memlink.Config{Keeps: true})}
	rules := resource.Rules{Mode: resource.Managed, Adopt: true}
	r.hub = &side{r: r, engine: engine.Config{Side: resource.Principal, Rules: rules, Self: "hub-1", Peer: agentName}}
	r.spoke = &side{r: r, engine: engine.Config{Side: resource.Agent, Rules: rules, Self: agentName}}
	for _, s := range []*side{r.hub, r.spoke} {
		var err error
		s.speaks, s.version = wire.Spoken(), "test"
		s.key, err = seal.New()
		require.NoError(t, err)
		s.cluster = memstore.New(memstore.Config{Name: s.engine.Self})
		s.store = s.cluster
		s.wrap = func(l transport.Link) transport.Link { return l }
		s.tune = func(*session.Config) {}
	}
	return r
}

// start starts both sessions.
func (r *rig) start() {
	r.hub.start()
	r.spoke.start()
}

// start starts a process of this side. It ends with the test, or by stop.
func (s *side) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	s.link = s.wrap(s.open(ctx, &running))
	c := session.Config{Engine: s.engine, Store: s.store, Link: s.link, Key: s.key, Protocol: s.speaks}
	s.tune(&c)
	var err error
	s.Session, err = session.New(c)
	require.NoError(s.r.t, err)
	ended := make(chan error, 1)
	running.Go(func() { ended <- s.Run(ctx) })
	var once sync.Once
	var result error
	s.stop = func() error {
		once.Do(func() {
			cancel()
			result = <-ended
			s.link.Close()
			running.Wait()
		})
		return result
	}
	s.r.t.Cleanup(func() { s.stop() })
}

func (s *side) open(ctx context.Context, running *sync.WaitGroup) transport.Link {
	presence := transport.Presence{Version: s.version, Oldest: s.speaks.Oldest, Newest: s.speaks.Newest}
	if s.engine.Side == resource.Agent {
		l, err := s.r.net.Agent(agentName, presence).Dial(ctx)
		require.NoError(s.r.t, err)
		return l
	}
	h := s.r.net.Hub(presence)
	running.Go(func() { h.Run(ctx) })
	l, err := h.Link(ctx, agentName)
	require.NoError(s.r.t, err)
	return l
}

// app is the key of an Application.
func app(name string) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: "ns", Name: name}
}

// set edits one part of an object.
func (s *side) set(name string, p resource.Part, text string) {
	s.cluster.Edit(app(name), func(o *resource.Object) { o.Parts[p] = text })
}

func (s *side) part(name string, p resource.Part) string {
	o, _ := s.cluster.Get(app(name))
	return o.Parts[p]
}

// settle lets virtual time pass until nothing happens at once.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
