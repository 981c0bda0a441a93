package principal

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

var moves = flag.Int("moves", 8, "how many schedules of moves are simulated")

// A yard is a hub under destination mapping and its agents, of which each has a store of its
// own and a controller that ends deletions and writes statuses. A judge sees to it that no
// Application is ever at two of them.
type yard struct {
	t      *testing.T
	net    *memlink.Network
	hub    *memstore.Store
	roll   []backend.Agent
	spokes map[string]*haven
	kept   *ledger.Ledger
	slow   func() time.Duration // how long a controller takes to end a deletion

	*Principal
	stop func()
}

// A haven is an agent.
type haven struct {
	name  string
	store *memstore.Store
	stop  func() // nil: it does not run
}

func newYard(t *testing.T, w memlink.Weather, seed uint64, agents ...string) *yard {
	y := &yard{
		t: t, net: memlink.New(memlink.Config{Seed: seed, Keeps: true, Weather: w}), hub: memstore.New(memstore.Config{Name: "hub"}),
		spokes: map[string]*haven{}, kept: ledger.InMemory(), slow: func() time.Duration { return time.Second },
	}
	for _, name := range agents {
		h := &haven{name: name, store: memstore.New(memstore.Config{Name: name})}
		y.spokes[name] = h
		y.roll = append(y.roll, backend.Agent{Name: name})
		y.follow(h.store, func(o resource.Object) { y.tend(h, o) })
	}
	y.start()
	for _, h := range y.spokes {
		y.join(h)
	}
	t.Cleanup(y.end)
	return y
}

// follow calls f for all that a store shows until the test is over.
func (y *yard) follow(s *memstore.Store, f func(resource.Object)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = s.Watch(ctx, backend.Scope{}, func(e backend.Event) error { // until it is cancelled
			if e.Put != nil {
				f(*e.Put)
			}
			return nil
		})
	})
	y.t.Cleanup(func() { cancel(); running.Wait() })
}

// tend is the judge, and an agent's controller.
func (y *yard) tend(h *haven, o resource.Object) {
	for _, other := range y.spokes {
		for _, p := range other.store.All() {
			if other != h && o.Origin.UID != "" && p.Origin.UID == o.Origin.UID {
				y.t.Errorf("%s (%s) is at %s and at %s", o.Key, o.Origin.UID, h.name, other.name)
			}
		}
	}
	switch {
	case o.Deleting:
		time.AfterFunc(y.slow(), func() { h.store.Finish(o.Key) })
	case o.Parts[resource.Status] == "" && o.Parts[resource.Spec] != "":
		edit(h.store, o.Key, resource.Status, `{"health":{"status":"Healthy"}}`)
	}
}

// start starts a process of the principal.
func (y *yard) start() {
	hub, roll := y.net.Hub(presence()), make(roll, 1)
	p, err := New(Config{
		Identity: "hub-1", Namespace: "argocd", Destination: true, Allowed: []string{"team-*"},
		Hub: hub, Store: y.hub, Registry: roll, Tick: time.Second, Ledger: y.kept, Log: zap.NewNop(),
	})
	require.NoError(y.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	roll <- y.roll
	y.Principal = p
	y.stop = func() { cancel(); <-ended }
}

// restart kills the principal, and starts another process of it after a pause.
func (y *yard) restart(pause time.Duration) {
	y.stop()
	<-time.After(pause)
	y.start()
}

// join starts a process of an agent.
func (y *yard) join(h *haven) {
	link, err := y.net.Agent(h.name, presence()).Dial(context.Background())
	require.NoError(y.t, err)
	s, err := session.New(session.Config{
		Engine: engine.Config{Side: resource.Agent, Rules: resource.Rules{Adopt: true}, Self: h.name},
		Store:  h.store, Link: link, Tick: time.Second,
	})
	require.NoError(y.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = s.Run(ctx) // it ends when it is told to, or when its hub forgets it
	})
	h.stop = func() { cancel(); running.Wait(); require.NoError(y.t, link.Close()) }
}

func (y *yard) leave(h *haven) {
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

func (y *yard) end() {
	y.stop()
	for _, h := range y.spokes {
		y.leave(h)
	}
}

func (y *yard) line(agent string, up bool) {
	w := memlink.Weather{}
	if !up {
		w.Line = memlink.Cut
	}
	y.net.Set(agent, w)
}

// settle lets virtual time pass until nothing happens any more.
func (y *yard) settle() {
	<-time.After(2 * time.Minute)
	synctest.Wait()
}

// aimAt writes an Application that is aimed at an agent.
func (y *yard) aimAt(k resource.Key, agent string) {
	edit(y.hub, k, resource.Spec, fmt.Sprintf(`{"destination":{"name":%q,"namespace":"web"}}`, agent))
}

// where returns the agents that have a copy of the hub's object k, in order, with commas between.
func (y *yard) where(k resource.Key) (agents string) {
	o, _ := y.hub.Get(k)
	for _, a := range y.roll {
		for _, c := range y.spokes[a.Name].store.All() {
			if c.Origin.UID != "" && c.Origin.UID == o.UID {
				agents += a.Name
			}
		}
	}
	return agents
}

func (y *yard) part(k resource.Key, p resource.Part) string {
	o, _ := y.hub.Get(k)
	return o.Parts[p]
}

var cascades = resource.Metadata{Finalizers: []string{"resources-finalizer.argocd.argoproj.io"}}.Text()

// TestMovesNeverAreAtTwoPlaces lets users move, edit and delete Applications while links are
// cut and everybody is killed, and demands that in the end each of them is where it is aimed
// at, and nothing else was lost.
func TestMovesNeverAreAtTwoPlaces(t *testing.T) {
	for n := range *moves {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulateMoves(t, uint64(n)) })
		})
	}
}

func simulateMoves(t *testing.T, n uint64) {
	agents := []string{"a", "b", "c"}
	y := newYard(t, memlink.Weather{Delay: 2 * time.Second, Repeat: 0.2, Break: 0.05}, n, agents...)
	r := rand.New(rand.NewPCG(n, 7))
	var mu sync.Mutex
	chance := func(n int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(n) }
	y.slow = func() time.Duration { return time.Duration(chance(5000)) * time.Millisecond }
	keys := []resource.Key{app("argocd", "one"), app("team-a", "one"), app("team-a", "two"), app("team-b", "one")}
	made := map[resource.Key]string{}
	for range 250 {
		<-time.After(time.Duration(chance(3000)) * time.Millisecond)
		k, agent := keys[chance(len(keys))], agents[chance(len(agents))]
		o, is := y.hub.Get(k)
		switch c := chance(20); {
		case !is:
			y.hub.Edit(k, func(o *resource.Object) {
				o.Parts[resource.Spec] = fmt.Sprintf(`{"destination":{"name":%q}}`, agent)
				if chance(2) == 0 {
					o.Parts[resource.Meta] = cascades
				}
			})
			o, _ = y.hub.Get(k)
			made[k] = o.UID + o.Parts[resource.Meta]
		case o.Deleting:
		case c < 9:
			y.aimAt(k, agent)
		case c < 10:
			y.aimAt(k, []string{"", "in-cluster", "nobody"}[chance(3)])
		case c < 11:
			y.hub.Delete(k)
		case c < 14:
			y.line(agent, chance(3) > 0)
		case c < 16:
			y.leave(y.spokes[agent])
			<-time.After(time.Duration(chance(2)*chance(20)) * time.Second)
			y.join(y.spokes[agent])
		case c < 18:
			y.restart(time.Duration(chance(2)*chance(20)) * time.Second)
		default:
			edit(y.hub, k, resource.Meta, resource.Metadata{
				Labels: map[string]string{"n": fmt.Sprint(chance(9))}, Finalizers: resource.ParseMetadata(o.Parts[resource.Meta]).Finalizers,
			}.Text())
		}
	}
	for _, agent := range agents {
		y.line(agent, true)
	}
	y.settle()
	y.settle()
	for _, k := range keys {
		o, is := y.hub.Get(k)
		to := aim(o.Parts[resource.Spec])
		if to == "nobody" {
			to = ""
		}
		at := y.where(k)
		if to == "" && !o.Deleting {
			require.LessOrEqual(t, len(at), 1, "%s", k)
			// It is also said of an agent to which it was given and that has not made it yet.
			said := strings.HasPrefix(o.Parts[resource.Pending], "its destination names no managed agent")
			require.True(t, said || at == "", "%s says %q", k, o.Parts[resource.Pending])
		} else {
			require.Equal(t, to, at, "%s", k)
		}
		if is {
			kept := resource.Metadata{Finalizers: resource.ParseMetadata(o.Parts[resource.Meta]).Finalizers}.Text()
			require.Equal(t, made[k], o.UID+kept, "the move of %s has cost it something", k)
			require.False(t, o.Deleting && to != "", "%s is still being deleted", k)
			require.True(t, to == aim(o.Parts[resource.Spec]) && o.Parts[resource.Pending] == "" || to == "", "%s says %q", k, o.Parts[resource.Pending])
		}
	}
	for _, h := range y.spokes {
		for k, c := range h.store.All() {
			require.NotEmpty(t, c.Origin.UID)
			o, _ := y.hub.Get(app(map[bool]string{true: "argocd", false: k.Namespace}[k.Namespace == ""], k.Name))
			require.Equal(t, o.UID, c.Origin.UID, "%s has %s", h.name, k)
		}
	}
}
