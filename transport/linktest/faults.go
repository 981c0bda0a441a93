package linktest

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// noticed is within what time a peer that is silent must be known to be away.
const noticed = 25 * time.Second

var faults = []test{
	{name: "Cut", run: func(w *world) { w.separate(Cut) }},
	{name: "CutsInTraffic", run: func(w *world) { w.interruptions(Cut, 10) }},
	{name: "BlackHole", run: func(w *world) { w.separate(BlackHole) }},
	{name: "BlackHolesInTraffic", run: func(w *world) { w.interruptions(BlackHole, 3) }},
	{name: "SlowLine", run: slowLine},
	{name: "LongAbsence", run: longAbsence},
	{name: "Reconnects", run: reconnects},
}

// apart puts the line into a state in which nothing passes and waits until both sides know.
func (w *world) apart(f Fault, h, a *end) {
	w.Helper()
	h.awaitUp()
	a.awaitUp()
	start := time.Now()
	w.Fault(w.T, h.link.Peer(), f)
	h.awaitDown()
	a.awaitDown()
	require.Less(w, time.Since(start), noticed)
}

func (w *world) heal(agent string) { w.Fault(w.T, agent, Healthy) }

// separate sends before, while and after nothing passes. All of it arrives in the end.
func (w *world) separate(f Fault) {
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	h.send(down, keys("key", 100)...)
	a.send(up, keys("key", 100)...)
	w.apart(f, h, a)
	h.send(down, keys("key", 50)...)
	a.send(up, keys("key", 50)...)
	h.drop(down, keys("key", 10)...)
	a.drop(up, keys("key", 10)...)
	h.send(down, keys("new", 50)...)
	a.send(up, keys("new", 50)...)
	w.heal("alpha")
	h.send(down, "last")
	a.send(up, "last")
	a.awaitTable(down)
	h.awaitTable(up)
}

// interruptions interrupts traffic in both directions n times, at random places in that of
// one side, while the other's goes on; a black hole is mostly over before it is noticed. After
// each it waits for a sign of life only, so that the next comes while there is still something
// to catch up with.
func (w *world) interruptions(f Fault, n int) {
	h, a := w.pair("alpha")
	rnd := rand.New(rand.NewPCG(uint64(f), uint64(n)))
	down, up := table{}, table{}
	one, its, other, others := h, down, a, up
	for range n {
		g, ctx := errgroup.WithContext(w.ctx)
		other.write(ctx, g, others, keys("key", 30), 600)
		one.traffic(its, rnd.IntN(300))
		w.Fault(w.T, "alpha", f)
		one.traffic(its, rnd.IntN(300))
		w.heal("alpha")
		one.traffic(its, rnd.IntN(300))
		require.NoError(w, g.Wait())
		one.send(its, "sign")
		other.send(others, "sign")
		a.awaitValues(table{"sign": down["sign"]})
		h.awaitValues(table{"sign": up["sign"]})
		one, its, other, others = other, others, one, its
	}
	a.awaitTable(down)
	h.awaitTable(up)
}

// traffic sends n values of 30 keys in turn.
func (e *end) traffic(t table, n int) {
	e.w.Helper()
	all := keys("key", 30)
	for i := range n {
		e.send(t, all[i%len(all)])
	}
}

func slowLine(w *world) {
	h, a := w.pair("alpha")
	h.awaitUp()
	a.awaitUp()
	w.Fault(w.T, "alpha", Slow)
	down, up := table{}, table{}
	for _, k := range keys("key", 32) {
		h.put(down, w.sized(k, 32<<10))
		a.put(up, w.sized(k, 32<<10))
	}
	h.traffic(down, 300)
	a.traffic(up, 300)
	a.awaitTable(down)
	h.awaitTable(up)
}

// longAbsence: ten thousand updates of a hundred keys arrive as the last hundred values.
func longAbsence(w *world) {
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	h.send(down, keys("p", 10)...)
	a.send(up, keys("p", 10)...)
	a.awaitTable(down)
	h.awaitTable(up)
	w.apart(Cut, h, a)
	before := map[*end]Seen{}
	for _, e := range []*end{h, a} {
		e.Look(func(s *Seen) { before[e] = *s })
	}
	g, ctx := errgroup.WithContext(w.ctx)
	for i := range 10 {
		own := keys(string(rune('p'+i)), 10)
		h.write(ctx, g, down, own, 1000)
		a.write(ctx, g, up, own, 1000)
	}
	require.NoError(w, g.Wait())
	w.heal("alpha")
	a.awaitTable(down)
	h.awaitTable(up)
	for _, e := range []*end{h, a} {
		e.Look(func(s *Seen) {
			require.LessOrEqual(w, s.Places-before[e].Places, 100)
			require.LessOrEqual(w, s.Given-before[e].Given, 200, "too many repetitions")
		})
	}
}

// reconnects: after each of a hundred cuts, or of so many, both sides are up again.
func reconnects(w *world) {
	h, a := w.pair("alpha")
	for range cmp.Or(w.reconnects, 100) {
		w.apart(Cut, h, a)
		w.heal("alpha")
	}
	down, up := table{}, table{}
	h.send(down, "key")
	a.send(up, "key")
	a.awaitTable(down)
	h.awaitTable(up)
}
