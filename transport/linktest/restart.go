package linktest

import (
	"maps"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/transport"
)

var restarts = []test{
	{name: "Restart/Agent", run: func(w *world) { w.restartWithTraffic(false, true) }},
	{name: "Restart/Hub", run: func(w *world) { w.restartWithTraffic(true, false) }},
	{name: "Restart/Both", run: func(w *world) { w.restartWithTraffic(true, true) }},
	{name: "RestartInTraffic/Agent", run: agentRestartsInTraffic},
	{name: "RestartInTraffic/Hub", run: hubRestartsInTraffic},
	{name: "RestartInBlackHole", run: restartInBlackHole},
	{name: "UnackedComesAgain/Agent", run: unackedByAgent},
	{name: "UnackedComesAgain/Hub", run: unackedByHub},
	{name: "LateAck", run: lateAck},
	{name: "ReplayOffline/Agent", run: replayToAgent, needs: []Store{AgentCopy}},
	{name: "ReplayOffline/Hub", run: replayToHub, needs: []Store{HubCopy}},
}

// restartAgent ends the process of an agent and starts another.
func (w *world) restartAgent(a *end) *end {
	w.Helper()
	a.close()
	return w.openAgent("alpha")
}

// restartHub ends the principal's process, without closing its Link, and starts another.
func (w *world) restartHub(h *end) *end {
	w.Helper()
	w.stopHub()
	h.close()
	w.startHub()
	return w.openHub("alpha")
}

// resend sends what a process that has lost its log must send again: all of t.
func (e *end) resend(t table) {
	e.w.Helper()
	for k, m := range t {
		if m.Tombstone() {
			e.drop(t, k)
		} else {
			e.send(t, k)
		}
	}
}

// restartWithTraffic restarts one or both sides while messages wait for a line that is cut.
func (w *world) restartWithTraffic(hub, agent bool) {
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	h.send(down, keys("key", 50)...)
	a.send(up, keys("key", 50)...)
	a.awaitTable(down)
	h.awaitTable(up)
	w.apart(Cut, h, a)
	h.send(down, keys("key", 10)...)
	a.send(up, keys("key", 10)...)
	h.send(down, keys("new", 40)...)
	a.send(up, keys("new", 40)...)
	if hub {
		h = w.restartHub(h)
		if !w.traits.keeps(HubLog) {
			h.resend(down)
		}
	}
	if agent {
		a = w.restartAgent(a)
		if !w.traits.keeps(AgentLog) {
			a.resend(up)
		}
	}
	w.heal("alpha")
	h.awaitUp()
	a.awaitUp()
	waited := func(t table) table {
		rest := table{}
		for _, k := range append(keys("new", 40), keys("key", 10)...) {
			rest[k] = t[k]
		}
		return rest
	}
	a.awaitValues(waited(down))
	h.awaitValues(waited(up))
	h.send(down, "last")
	a.send(up, "last")
	a.awaitValues(table{"last": down["last"]})
	h.awaitValues(table{"last": up["last"]})
	a.Look(func(s *Seen) { w.judge(down, s) })
	h.Look(func(s *Seen) { w.judge(up, s) })
}

// agentRestartsInTraffic restarts the reader three times while the writer goes on.
func agentRestartsInTraffic(w *world) {
	h, a := w.pair("alpha")
	down, all := table{}, []*end{a}
	g, ctx := errgroup.WithContext(w.ctx)
	h.write(ctx, g, down, keys("key", 50), 3000)
	for range 3 {
		a.awaitUp()
		a = w.restartAgent(a)
		all = append(all, a)
	}
	require.NoError(w, g.Wait())
	awaitAcross(all, down)
}

func hubRestartsInTraffic(w *world) {
	h, a := w.pair("alpha")
	up, all := table{}, []*end{h}
	g, ctx := errgroup.WithContext(w.ctx)
	a.write(ctx, g, up, keys("key", 50), 3000)
	for range 3 {
		h.awaitUp()
		h = w.restartHub(h)
		all = append(all, h)
	}
	require.NoError(w, g.Wait())
	awaitAcross(all, up)
}

// restartInBlackHole: an agent that starts anew behind a silent line, whose other end does not
// know yet, is not up before the line is whole. Then it takes the place of the one before.
func restartInBlackHole(w *world) {
	h, a := w.pair("alpha")
	before := h.process()
	a.awaitUp()
	w.Fault(w.T, "alpha", BlackHole)
	a = w.restartAgent(a)
	a.awaitNever("up", func(s *Seen) bool { return s.Ups > 0 })
	down, up := table{}, table{}
	h.send(down, "key")
	a.send(up, "key")
	w.heal("alpha")
	a.awaitTable(down)
	h.awaitTable(up)
	a.awaitUp()
	h.await("the next process", func(s *Seen) bool { return s.Peer != nil && s.Peer.Process != before })
}

// awaitAcross waits until the last of the ends has seen what is in t and no process before
// it has seen and acked.
func awaitAcross(ends []*end, t table) {
	last := ends[len(ends)-1]
	last.w.Helper()
	rest := maps.Clone(t)
	for _, e := range ends[:len(ends)-1] {
		e.Look(func(s *Seen) {
			maps.DeleteFunc(rest, func(k string, m transport.Message) bool { return count(s.Values[k].Message) == count(m) })
		})
	}
	last.awaitValues(rest)
}

// unackedByAgent: what a process has received and not acked comes again to the next.
func unackedByAgent(w *world) {
	w.startHub()
	h := w.openHub("alpha")
	a := w.open(w.dial("alpha"), false)
	down := table{}
	h.send(down, keys("key", 30)...)
	a.awaitTable(down)
	next := w.restartAgent(a)
	next.awaitTable(down)
	a.ackAll()
	h.send(down, keys("key", 10)...)
	next.awaitTable(down)
}

func unackedByHub(w *world) {
	w.startHub()
	l, err := w.hub.Link(w.ctx, "alpha")
	require.NoError(w, err)
	h := w.open(l, false)
	a := w.openAgent("alpha")
	up := table{}
	a.send(up, keys("key", 30)...)
	h.awaitTable(up)
	next := w.restartHub(h)
	next.awaitTable(up)
	h.ackAll()
	a.send(up, keys("key", 10)...)
	next.awaitTable(up)
}

// lateAck: an ack of a value does not take the next one for delivered.
func lateAck(w *world) {
	w.startHub()
	l, err := w.hub.Link(w.ctx, "alpha")
	require.NoError(w, err)
	h, a := w.open(l, false), w.open(w.dial("alpha"), false)
	down, up := table{}, table{}
	h.send(down, "key")
	a.send(up, "key")
	a.awaitTable(down)
	h.awaitTable(up)
	w.apart(Cut, h, a)
	h.send(down, "key")
	a.send(up, "key")
	h.ackAll()
	a.ackAll()
	w.heal("alpha")
	a.awaitTable(down)
	h.awaitTable(up)
}

// ackAll acks all that was seen, also when the Link is closed.
func (e *end) ackAll() {
	e.Look(func(s *Seen) {
		for _, ack := range s.Unacked {
			ack()
		}
	})
}

// replayToAgent restarts an agent that cannot reach the principal, twice: cut off, and while
// there is no principal.
func replayToAgent(w *world) {
	h, a := w.pair("alpha")
	down := table{}
	h.fill(down)
	a.awaitTable(down)
	w.apart(Cut, h, a)
	a = w.restartAgent(a)
	a.awaitKept(down)
	w.heal("alpha")
	a.awaitUp()
	w.stopHub()
	a = w.restartAgent(a)
	a.awaitKept(down)
}

// replayToHub restarts the principal while it cannot be reached by an agent, twice: cut off,
// and while there is no agent.
func replayToHub(w *world) {
	h, a := w.pair("alpha")
	up := table{}
	a.fill(up)
	h.awaitTable(up)
	w.apart(Cut, h, a)
	h = w.restartHub(h)
	h.awaitKept(up)
	w.heal("alpha")
	h.awaitUp()
	a.close()
	h = w.restartHub(h)
	h.awaitKept(up)
}

// fill sends new, replaced and dropped keys.
func (e *end) fill(t table) {
	e.w.Helper()
	e.send(t, keys("key", 50)...)
	e.send(t, keys("key", 20)...)
	e.drop(t, keys("key", 10)...)
	e.send(t, "$reserved")
}

// awaitKept demands that by Replayed all of t has been given, and that the peer is away.
func (e *end) awaitKept(t table) {
	e.w.Helper()
	e.awaitReplayed()
	e.Look(func(s *Seen) {
		require.Empty(e.w, missing(t, s))
		require.Equal(e.w, s.Places, s.Kept, "a kept value came after replayed")
		require.Zero(e.w, s.Ups)
		e.w.judge(t, s)
	})
}
