package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A row that was read, and comes again unreadable, is known.
func TestReadAndSpoilt(t *testing.T) {
	w := fleet(t, durable, 1)
	m := w.half[0].copy[app(0)]
	r := m.Message.Body.(engine.Record)
	w.reset()
	w.node[1].step(engine.Received{At: m.At + 100, Message: engine.Message{
		Key: app(0), Body: engine.Unreadable{Row: r.Digest(), UID: r.UID, Text: "spoilt"},
	}})
	w.settle(10)
	w.expect(t)
	if f, c := w.node[1].eng.Faults(app(0)), w.counts(); len(f) > 0 || c != [6]int{} {
		t.Errorf("%v, and they say %v", f, c)
	}
}

// A row that nobody can read is asked for once more, and then taken for what it is: what
// was read before stays in force, the hub says why, and nothing moves.
func TestUnreadable(t *testing.T) {
	w := fleet(t, durable, 3)
	w.babel = keySet{app(1): true, app(7): true}
	w.edit(1, "2")
	w.edit(7, "1")
	w.settle(12)
	spoke := w.node[1]
	if !spoke.eng.InStep() || spoke.store[app(1)].Parts[resource.Spec] != `"1"` || spoke.store[app(7)].UID != "" {
		t.Fatalf("in step %v, copies %v", spoke.eng.InStep(), spoke.store)
	}
	for _, i := range []int{1, 7} {
		if f := spoke.eng.Faults(app(i)); len(f) != 1 || f[0].Cause != engine.Puzzling || f[0].Text != "spoilt" {
			t.Errorf("faults of %d: %v", i, f)
		}
	}
	said := w.node[0].store[app(1)].Parts[resource.Fault] + w.node[0].store[app(7)].Parts[resource.Fault]
	if strings.Count(said, "cannot be read: spoilt") < 1 {
		t.Errorf("the hub says %q", said)
	}
	spoke.change(app(1), func(o *resource.Object) { o.Parts[resource.Spec] = `"drift"` })
	w.settle(2)
	if got := spoke.store[app(1)].Parts[resource.Spec]; got != `"1"` {
		t.Errorf("what was read before is not in force: %s", got)
	}
	w.reset()
	w.settle(50)
	if c := w.counts(); c != [6]int{} || w.err != nil {
		t.Errorf("they went on to say %v, %v", c, w.err)
	}

	spoke.restart() // the link gives it once more, and the peer is asked once more
	w.settle(12)
	w.reset()
	w.settle(20)
	if c := w.counts(); c != [6]int{} || !spoke.eng.InStep() {
		t.Errorf("after a restart they went on to say %v", c)
	}

	w.babel = nil
	spoke.step(engine.Retry{Key: app(1)})
	w.edit(7, "2")
	w.settle(12)
	w.expect(t)
	if f := spoke.eng.Faults(app(1)); len(f) > 0 {
		t.Errorf("it still has %v", f)
	}
}

// A copy whose row cannot be read is none that the peer's table does not have.
func TestUnreadableIsNotAbsent(t *testing.T) {
	w := fleet(t, durable, 3)
	at := w.half[0].copy[app(1)].At
	spoke := w.node[1]
	spoke.step(engine.Received{At: at + 1000, Message: engine.Message{Key: app(1), Body: engine.Tombstone{}}})
	w.babel = keySet{app(1): true}
	u := engine.Unreadable{Row: w.half[0].copy[app(1)].Message.Body.Digest(), Text: "spoilt"}
	for i := range uint64(2) {
		spoke.step(engine.Received{At: at + 1001 + i, Message: engine.Message{Key: app(1), Body: u}})
	}
	w.settle(12)
	if !spoke.eng.InStep() || spoke.store[app(1)].UID == "" {
		t.Errorf("in step %v, copies %v", spoke.eng.InStep(), spoke.store)
	}
}

// A row that could not be read and is there no more is nothing to wait for: the hub has lost
// its log, and the object, while the agent was not running.
func TestUnreadableAndGone(t *testing.T) {
	s := &spoke{Engine: engine.New(engine.Config{Side: resource.Agent, Self: "spoke"}), now: time.Unix(1_700_000_000, 0)}
	s.step(engine.Changed{Object: resource.Object{
		Key: app(0), UID: "a1", Version: "1", Origin: resource.Origin{UID: "original", By: "hub"}, Parts: resource.Parts{resource.Spec: `{}`},
	}})
	s.hears(app(0), engine.Unreadable{Row: "8bff80e626c9faa766e2523bd10267d1", UID: "original", Text: "spoilt"})
	s.step(engine.Opened{Epoch: "epoch", Keeps: true})
	require.Len(t, s.Faults(app(0)), 1)
	for _, m := range hubOf() {
		s.hears(m.Key, m.Body)
	}
	require.True(t, s.InStep())
	require.Empty(t, s.step(engine.Tick{}))
	require.Empty(t, s.Faults(app(0)))
	require.False(t, s.InStep(), "the copy is taken for the hub's word, until the hub says that it is not")

	s.hears(app(0), engine.Tombstone{})
	require.Equal(t, []engine.Action{engine.Remove{Key: app(0), Version: "1"}}, s.step(engine.Tick{}))
}

// A table that never agrees is asked about less and less often.
func TestAskedInVain(t *testing.T) {
	w := fleet(t, durable, 3)
	m := w.half[0].copy[engine.ManifestKey]
	wrong := m.Message.Body.(engine.Manifest)
	wrong.Root++
	w.reset()
	for i := range 2000 {
		wrong.Answered = engine.Ticket{Epoch: w.half[1].epoch, N: uint64(1000 + i)}
		if b, ok := w.half[1].log[engine.AskKey].Message.Body.(engine.Ask); ok {
			wrong.Answered = b.Ticket
		}
		w.node[1].step(engine.Received{At: m.At + uint64(1000+i), Message: engine.Message{Key: engine.ManifestKey, Body: wrong}})
		for range 3 * (i%2 + 1) {
			w.node[1].step(engine.Tick{})
		}
	}
	if w.asks < 5 || w.asks > 200 {
		t.Errorf("asked %d times", w.asks)
	}
}

// A write that fails and fails again is said to, while it goes on being tried.
func TestStubbornFailure(t *testing.T) {
	w := fleet(t, durable, 2)
	spoke := w.node[1]
	spoke.stuck = keySet{app(1): true}
	w.edit(1, "2")
	w.settle(200)
	if got := w.node[0].store[app(1)].Parts[resource.Fault]; !strings.Contains(got, "tried again: stuck") {
		t.Errorf("the hub says %q", got)
	}
	if f := spoke.eng.Faults(app(1)); len(f) != 1 || f[0].Cause != engine.Stubborn || f[0].Text != "stuck" {
		t.Errorf("faults: %v", f)
	}
	spoke.stuck = nil
	w.settle(600)
	w.expect(t)
}

// What was refused is tried again when a user says so.
func TestRetry(t *testing.T) {
	w := fleet(t, durable, 2)
	w.edit(1, "bad")
	w.settle(4)
	w.reset()
	w.node[1].step(engine.Retry{Key: app(1)})
	w.node[1].step(engine.Retry{Key: app(8)})
	w.settle(4)
	if f := w.node[1].eng.Faults(app(1)); w.node[1].writes != 1 || len(f) != 1 || f[0].Cause != engine.Rejected {
		t.Errorf("%d writes, then %v", w.node[1].writes, f)
	}
	for _, n := range w.node {
		if st := n.eng.Status(); st.Faults != 1 || n == w.node[0] && st.FaultsSet == 0 {
			t.Errorf("%v says of itself %+v", n.side, st)
		}
	}
	w.expect(t)
}

// The hub says what waits for an agent that is away, once it has been away for a while.
func TestPending(t *testing.T) {
	w := fleet(t, durable, 3)
	hub := w.node[0]
	pending := func(i int) string { return hub.store[app(i)].Parts[resource.Pending] }
	hub.step(engine.Presence{Peer: true})
	w.up = false
	hub.change(app(1), func(o *resource.Object) { objectEdit{o}.finalizer(true) })
	w.remove(hub, app(1), true)
	w.settle(30)
	if pending(1) != "" {
		t.Errorf("it says %q of an agent that is there", pending(1))
	}
	hub.step(engine.Presence{})
	w.settle(1) // it is a minute, at the beginning of which nobody has been away for long
	if pending(1) != "" {
		t.Errorf("it says %q at once", pending(1))
	}
	w.settle(2)
	if !strings.Contains(pending(1), "deletion waits") || pending(2) != "" {
		t.Errorf("it says %q and %q", pending(1), pending(2))
	}
	hub.change(app(2), func(o *resource.Object) { w.operate(o) })
	w.settle(2)
	if !strings.Contains(pending(2), "operation waits") {
		t.Errorf("it says %q", pending(2))
	}
	if st := hub.eng.Status(); st.Pending != 2 || st.PendingSet != 2 {
		t.Errorf("it says of itself %+v", st)
	}
	hub.step(engine.Presence{Peer: true})
	w.settle(1)
	if pending(1)+pending(2) != "" {
		t.Errorf("it says %q and %q of an agent that is back", pending(1), pending(2))
	}
	w.up = true
	w.settle(12)
	w.expect(t)
}

// What a hub holds of an autonomous agent's says so, and goes when that is approved there.
func TestHeldOnTheHub(t *testing.T) {
	w := newWorld(0, resource.Rules{Mode: resource.Autonomous}, durable)
	w.faulty = false
	hub, spoke := w.node[0], w.node[1]
	for i := range 8 {
		uid := w.uid(resource.Agent)
		w.born[uid] = true
		spoke.put(resource.Object{Key: app(i), UID: uid, Parts: resource.Parts{resource.Spec: `"1"`}})
	}
	w.settle(8)
	for i := range 7 {
		o := spoke.store[app(i)]
		w.deleted[o.UID] = true
		delete(spoke.store, app(i))
	}
	spoke.restart()
	w.half[1].loseLog(w.random())
	spoke.step(w.half[1].opened(uint64(spoke.rev)))
	w.settle(12)
	held := hub.eng.Status().Held
	if len(held) != 7 || len(hub.store) != 8 {
		t.Fatalf("holds %v of %d", held, len(hub.store))
	}
	for i := range 8 {
		if got := hub.store[app(i)].Parts[resource.Held]; (got != "") != (i < 7) {
			t.Errorf("%d says %q", i, got)
		}
	}
	w.reset()
	hub.step(engine.Approved{Of: "another list"})
	w.settle(4)
	if len(hub.store) != 8 {
		t.Fatal("another list was approved")
	}
	hub.step(engine.Approved{Of: engine.HeldDigest(held)})
	w.settle(8)
	if len(hub.store) != 1 || w.err != nil {
		t.Errorf("%d are left, %v", len(hub.store), w.err)
	}
}

// Who has the place of a row is a fault as well.
func TestTakenPlaces(t *testing.T) {
	for by, want := range map[string]string{"": "adoption policy", "neighbour": "a copy that neighbour has written"} {
		w := newWorld(0, resource.Rules{Mode: resource.Autonomous, Adopt: true}, durable)
		w.faulty = false
		o := resource.Object{Key: app(0), Parts: resource.Parts{resource.Spec: `"hub's"`}}
		if by != "" {
			o.Origin = resource.Origin{UID: "x1", By: by}
		}
		w.node[0].put(o)
		w.create(w.node[1], app(0))
		w.settle(6)
		f := w.node[0].eng.Faults(app(0))
		if len(f) != 1 || f[0].Cause != engine.Taken || !strings.Contains(f[0].Text, want) {
			t.Errorf("faults of %q: %v", by, fmt.Sprint(f))
		}
	}
}

// A copy whose removal takes several tries, and several processes, is counted once.
func TestRemovalIsCountedOnce(t *testing.T) {
	w := fleet(t, durable, 10)
	hub, spoke := w.node[0], w.node[1]
	spoke.stuck = keySet{}
	for i := range 3 {
		w.deleted[hub.store[app(i)].UID] = true
		delete(hub.store, app(i)) // while nobody looked
		spoke.stuck[app(i)] = true
	}
	hub.restart()
	w.settle(6)
	for range 3 {
		spoke.restart()
		w.settle(6)
	}
	if held := spoke.eng.Status().Held; len(held) > 0 || len(spoke.store) != 10 {
		t.Fatalf("holds %v of %d", held, len(spoke.store))
	}
	spoke.stuck = nil
	w.settle(8)
	w.expect(t)
}
