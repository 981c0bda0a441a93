package linktest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// quiet is how long the suite waits for what must not come.
const quiet = 3 * time.Second

var agents = []test{
	{name: "AgentsAreApart", run: agentsAreApart},
	{name: "UnknownAgent", run: unknownAgent},
	{name: "Forget", run: forget},
	{name: "Kept", run: kept, needs: []Store{HubLog}},
	{name: "NextOfThatName", run: nextOfThatName},
}

// agentsAreApart: agents use the same keys, and one begins with the name of another.
func agentsAreApart(w *world) {
	names := []string{"alpha", "alph", "alpha-2"}
	h, a := map[string]*end{}, map[string]*end{}
	down, up := map[string]table{}, map[string]table{}
	for _, n := range names {
		h[n], a[n] = w.pair(n)
		down[n], up[n] = table{}, table{}
	}
	whole := func(names ...string) {
		for _, n := range names {
			a[n].awaitTable(down[n])
			h[n].awaitTable(up[n])
		}
	}
	for _, n := range names {
		h[n].send(down[n], keys("key", 30)...)
		a[n].send(up[n], keys("key", 30)...)
		h[n].send(down[n], "only for "+n)
		a[n].send(up[n], "only of "+n)
	}
	whole(names...)

	// One that is cut off holds up no other, and gets what is its own.
	w.apart(Cut, h["alpha"], a["alpha"])
	for _, n := range names {
		h[n].drop(down[n], keys("key", 10)...)
		a[n].send(up[n], keys("key", 20)...)
	}
	whole("alph", "alpha-2")
	w.heal("alpha")
	whole(names...)
	for _, n := range names {
		h[n].checkLog(down[n])
		a[n].checkLog(up[n])
	}
}

// unknownAgent: an agent that is not registered can prove its name and is not let in, until
// it is registered.
func unknownAgent(w *world) {
	w.startHub()
	require.ErrorIs(w, w.hub.Forget(w.ctx, "alpha"), transport.ErrUnknown)
	a := w.openAgent("alpha")
	up := table{}
	a.send(up, "key")
	hb, ab := w.pair("beta")
	hb.awaitUp()
	ab.awaitUp()
	a.awaitNever("up", func(s *Seen) bool { return s.Ups > 0 })
	h := w.openHub("alpha")
	h.awaitTable(up)
	h.awaitUp()
	a.awaitUp()
}

// awaitNever demands that nothing happens for a while that makes ok true.
func (e *end) awaitNever(what string, ok func(*Seen) bool) {
	e.w.Helper()
	ctx, cancel := context.WithTimeout(e.w.ctx, quiet)
	defer cancel()
	require.ErrorIsf(e.w, e.Wait(ctx, ok), context.DeadlineExceeded, "link to %s: %s", e.link.Peer(), what)
}

// forget: an agent that is forgotten is cut off, and nothing is left of it on the principal's
// side.
func forget(w *world) {
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	h.fill(down)
	a.fill(up)
	a.awaitTable(down)
	h.awaitTable(up)
	epoch := h.log().Epoch
	require.Error(w, w.hub.Forget(w.ctx, "alpha"), "its Link is open")
	h.close()
	require.NoError(w, w.hub.Forget(w.ctx, "alpha"))
	require.ErrorIs(w, w.hub.Forget(w.ctx, "alpha"), transport.ErrUnknown)
	a.awaitDown()
	ups := a.ups()
	a.awaitNever("up", func(s *Seen) bool { return s.Ups > ups })
	a.close()

	h = w.openHub("alpha")
	h.awaitReplayed()
	h.Look(func(s *Seen) { require.Empty(w, s.Values) })
	require.NotEqual(w, epoch, h.checkLog(table{}))
	down = table{}
	h.send(down, keys("key", 5)...)
	a = w.openAgent("alpha")
	a.resend(up)
	h.awaitTable(up)
	a.awaitValues(down)
}

// kept: what is kept for an agent is known also to a process that has not opened its Link,
// and is gone once it is forgotten.
func kept(w *world) {
	w.startHub()
	w.checkKept()
	b := w.openHub("beta")
	a := w.openHub("alpha")
	w.checkKept("alpha", "beta")
	a.close()
	w.checkKept("alpha", "beta")
	w.stopHub()
	b.close()
	w.startHub()
	w.checkKept("alpha", "beta")
	require.NoError(w, w.hub.Forget(w.ctx, "beta"))
	w.checkKept("alpha")
	w.openHub("alpha").close()
	w.stopHub()
	w.startHub()
	w.checkKept("alpha")
	require.NoError(w, w.hub.Forget(w.ctx, "alpha"))
	w.checkKept()
}

func (w *world) checkKept(want ...string) {
	w.Helper()
	got, err := w.hub.Kept(w.ctx)
	require.NoError(w, err)
	require.Equal(w, want, append([]string(nil), got...))
}

// nextOfThatName: an agent that is registered again under its name, with a store of its own
// that is new, gets nothing of what was said to the one before it, and nothing of that is
// heard again.
func nextOfThatName(w *world) {
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	h.fill(down)
	a.fill(up)
	a.awaitTable(down)
	h.awaitTable(up)
	epoch := h.log().Epoch
	h.close()
	require.NoError(w, w.hub.Forget(w.ctx, "alpha"))
	a.awaitDown()
	a.close()
	for _, s := range []Store{AgentLog, AgentCopy} {
		if w.traits.keeps(s) {
			w.Wipe(w.T, "alpha", s)
		}
	}
	h, a = w.pair("alpha")
	down, up = table{}, table{}
	h.send(down, "new")
	a.send(up, "new")
	a.awaitTable(down)
	h.awaitTable(up)
	require.NotEqual(w, epoch, h.checkLog(down))
	a.checkLog(up)
}
