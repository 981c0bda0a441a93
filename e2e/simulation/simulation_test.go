package simulation

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

var (
	seeds = flag.Int("seeds", 8, "how many schedules of trouble are simulated for each kind of link and mode")
	seed  = flag.Uint64("seed", 0, "the first of them")
)

const (
	troubles = 300 // in each schedule
	names    = 4   // of objects that an agent's users know
)

// TestSimulation lets users, vandals, controllers and accidents loose on a principal and
// three agents, heals what is broken, and demands agreement and silence.
func TestSimulation(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		for _, mode := range []resource.Mode{resource.Managed, resource.Autonomous} {
			for n := range *seeds {
				n := *seed + uint64(n)
				t.Run(fmt.Sprintf("keeps=%t/%s/%d", keeps, mode, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { simulate(t, n, keeps, mode) })
				})
			}
		}
	}
}

// simulate runs one schedule. Some of it is left to the scheduler of goroutines: a seed
// that fails once may pass the next time.
func simulate(t *testing.T, n uint64, keeps bool, mode resource.Mode) {
	f := inMemory("seeded", keeps, memlink.Weather{Delay: 3 * time.Second, Repeat: 0.2, Break: 0.05})
	began := time.Now()
	w := newWorld(t, f, 3, mode)
	g := &gremlin{r: rand.New(rand.NewPCG(n, 2)), w: w, keeps: keeps}
	w.start()
	for _, s := range w.spokes {
		s.other().set("private", resource.Spec, `"mine"`)
		w.await(f.patience, "the first connection", func() bool { return s.lower().Connected })
	}
	for range troubles {
		time.Sleep(time.Duration(g.r.Int64N(int64(2 * time.Second))))
		g.strike(w.spokes[g.r.IntN(len(w.spokes))])
	}
	w.heal()
	for range 5 { // a deletion that is held shows once the list of what is missing is complete
		time.Sleep(time.Minute)
		w.approve()
	}
	w.settle()
	runs := 0
	for _, s := range w.spokes {
		require.Equal(t, `"mine"`, s.other().part("private", resource.Spec), "what nobody named was touched")
		runs += g.countRuns(s)
	}
	require.NotZero(t, runs)
	t.Logf("%v of virtual time, %d runs of %d requests", time.Since(began), runs, g.serial)
}

// A gremlin makes trouble.
type gremlin struct {
	r      *rand.Rand
	w      *world
	keeps  bool
	serial int
}

// countRuns demands that no object has run a request twice, and returns how many were run.
func (g *gremlin) countRuns(s *spoke) int {
	runs := s.control.counts()
	for what, n := range runs {
		require.Equal(g.w.t, 1, n, "%s has run it so often: %s", s.name, what)
	}
	return len(runs)
}

func (g *gremlin) name() string { return fmt.Sprint("app-", g.r.IntN(names)) }

// strike makes one trouble for a spoke.
func (g *gremlin) strike(s *spoke) {
	switch c := g.r.IntN(40); {
	case c < 16:
		g.user(s.owner(), g.name())
	case c < 20:
		g.vandal(s.other(), g.name())
	case c < 24:
		g.request(s.hub(), g.name())
	case c < 31:
		s.fault([]linktest.Fault{linktest.Healthy, linktest.Healthy, linktest.Cut, linktest.BlackHole, linktest.Slow}[g.r.IntN(5)])
	case c < 34:
		g.restart(s)
	case c < 36:
		g.w.stopHub()
		g.pause()
		g.w.startHub()
	case c < 38 && g.keeps:
		g.w.net.Wipe(g.w.t, s.name, linktest.Store(g.r.IntN(4)))
	case c == 38:
		s.control.slow(time.Duration(g.r.Int64N(int64(10 * time.Second))))
	}
}

// pause lets some time pass, or none.
func (g *gremlin) pause() {
	if g.r.IntN(2) == 0 {
		time.Sleep(time.Duration(g.r.Int64N(int64(30 * time.Second))))
	}
}

// restart restarts an agent; at times its link is down before, and something changes while
// it is away.
func (g *gremlin) restart(s *spoke) {
	if g.r.IntN(2) == 0 {
		s.fault(linktest.Cut)
	}
	s.stop()
	g.pause()
	if g.r.IntN(2) == 0 {
		name := g.name()
		g.user(s.owner(), name)
		g.vandal(s.other(), name)
	}
	s.start()
}

// user creates, edits, labels and deletes originals.
func (g *gremlin) user(c site, name string) {
	switch n := g.r.IntN(10); {
	case n < 2:
		c.delete(name)
	case n < 4:
		g.label(c, name)
	default:
		c.Edit(c.key(name), func(o *resource.Object) {
			o.Parts[resource.Spec] = number(g.r.IntN(9))
			if o.UID == "" && g.r.IntN(2) == 0 {
				o.Parts[resource.Meta] = cascade
			}
		})
	}
}

// label gives an object that is there another label, or takes one away.
func (g *gremlin) label(c site, name string) {
	if !c.has(name) {
		return
	}
	c.Edit(c.key(name), func(o *resource.Object) {
		m := resource.ParseMetadata(o.Parts[resource.Meta])
		m.Labels = maps.Clone(m.Labels)
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		label := fmt.Sprint("key-", g.r.IntN(3))
		if g.r.IntN(3) == 0 {
			delete(m.Labels, label)
		} else {
			m.Labels[label] = fmt.Sprint(g.r.IntN(3))
		}
		o.Parts[resource.Meta] = m.Text()
	})
}

// vandal meddles with copies.
func (g *gremlin) vandal(c site, name string) {
	if !c.has(name) {
		return
	}
	switch g.r.IntN(4) {
	case 0:
		c.delete(name)
	case 1:
		g.label(c, name)
	case 2:
		c.set(name, resource.Spec, `"vandalised"`)
	default:
		c.set(name, resource.Status, `"vandalised"`)
	}
}

// request asks, on the hub, for something to be run.
func (g *gremlin) request(c site, name string) {
	if o, there := c.get(name); !there || o.Deleting || o.Parts[resource.Operation] != "" {
		return
	}
	g.serial++
	c.set(name, resource.Operation, fmt.Sprintf(`{"sync":{"revision":"%d"}}`, g.serial))
}
