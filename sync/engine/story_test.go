package engine_test

import (
	"fmt"
	"testing"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// fleet returns a calm world with n Applications in step.
func fleet(t *testing.T, k linkKind, n int) *world {
	t.Helper()
	w := newWorld(0, resource.Rules{}, k)
	w.faulty = false
	for i := range n {
		w.edit(i, "1")
	}
	w.settle(8)
	for i := range n {
		o := w.node[1].store[app(i)]
		o.Parts[resource.Status] = w.status(o, "fine")
		w.node[1].put(o)
	}
	w.settle(4)
	w.expect(t)
	return w
}

// edit writes an Application at the hub.
func (w *world) edit(i int, spec string) {
	o := w.node[0].store[app(i)]
	if o.UID == "" {
		o.Key, o.UID = app(i), w.uid(resource.Principal)
		w.born[o.UID] = true
		w.line[o.Key] = append(w.line[o.Key], o.UID)
	}
	o.Parts[resource.Spec] = fmt.Sprintf("%q", spec)
	w.node[0].put(o)
}

// change edits an object of one side as somebody would.
func (n *node) change(k resource.Key, f func(o *resource.Object)) {
	o := n.store[k]
	f(&o)
	n.put(o)
}

func (w *world) expect(t *testing.T) {
	t.Helper()
	if w.err == nil {
		w.err = w.agree()
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
}

func (w *world) reset() {
	w.asks, w.asked = 0, 0
	for _, n := range w.node {
		n.data, n.control, n.writes = 0, 0, 0
		w.half[n.side].crossed, w.half[n.side].rows = 0, 0
	}
}

// What happened while the peer was away crosses as state, not as history.
func TestAwayForLong(t *testing.T) {
	for _, k := range []linkKind{durable, volatile} {
		w := fleet(t, k, 50)
		w.reset()
		w.up = false
		for i := range 5000 {
			w.edit(i%50, fmt.Sprint(i))
			for w.node[0].turn() {
			}
			for _, n := range w.node {
				n.step(engine.Tick{})
			}
		}
		w.up = true
		w.settle(8)
		w.expect(t)
		if c := w.half[0].rows; c > 50 {
			t.Errorf("%d rows crossed for 50 objects", c)
		}
		if c := w.node[1].control; c > 2 {
			t.Errorf("the agent, left alone, said %d things", c)
		}
	}
}

// Restarts cost a few messages, whatever the size of the tables.
func TestRestart(t *testing.T) {
	for _, k := range []linkKind{durable, volatile} {
		w := fleet(t, k, 200)
		for _, who := range [][]int{{0}, {1}, {0, 1}} {
			w.reset()
			w.seals = 0
			for _, i := range who {
				w.node[i].restart()
			}
			w.settle(10)
			w.expect(t)
			c := w.counts()
			if c[0]+c[1] > 0 || c[2]+c[3]-w.seals > 6 || c[4]+c[5] > 0 {
				t.Errorf("%v, restart of %v: rows %v, other messages %v, writes %v", k, who, c[0:2], c[2:4], c[4:6])
			}
			if k == durable && w.seals > 0 || w.seals > 2+len(who) {
				t.Errorf("%v, restart of %v: %d messages about keys", k, who, w.seals)
			}
		}
	}
}

// Only what differs is sent again: tombstones that had aged, and no more.
func TestRepairIsExact(t *testing.T) {
	w := fleet(t, durable, 200)
	w.up = false
	for i := range 3 {
		w.remove(w.node[0], app(i), false)
	}
	w.settle(4)
	for len(w.half[0].move) > 1 { // all but the manifest
		w.half[0].age(w.r)
	}
	w.reset()
	w.up = true
	w.settle(10)
	w.expect(t)
	if c := w.counts(); c[0] != 3 || w.asks != 2 || c[4] != 0 || c[5] != 3 {
		t.Errorf("to repair 3 rows they said %v and asked %d times", c, w.asks)
	}
	if w.asked > 20 { // 3 buckets of 256
		t.Errorf("listed %d keys", w.asked)
	}
	w.reset()
	w.node[0].restart()
	w.settle(4)
	if c := w.counts(); c[0] != 0 { // the Ask was withdrawn
		t.Errorf("%d rows after a restart", c[0])
	}
}

// A table that is larger than a page is asked for page by page.
func TestRepairByPages(t *testing.T) {
	w := fleet(t, durable, 5000)
	w.reset()
	w.half[0].loseLog("another")
	w.half[0].loseCopy()
	w.node[1].restart()
	w.node[0].step(w.half[0].opened(uint64(w.node[0].rev)))
	w.half[0].log, w.half[0].move = map[resource.Key]engine.Received{}, keySet{} // nothing of it got there
	w.node[0].step(engine.Unsent{Key: engine.ManifestKey})
	w.settle(40)
	w.expect(t)
}

// Rows of a table that is used and slow to arrive are not taken for missing.
func TestPatience(t *testing.T) {
	w := fleet(t, durable, 20)
	w.reset()
	for i := range 200 {
		w.edit(i%20, fmt.Sprint(i))
		for _, n := range w.node {
			n.step(engine.Tick{})
		}
		for range 6 {
			w.flow()
		}
	}
	if w.asks > 0 {
		t.Errorf("asked %d times", w.asks)
	}
}

// What could not be put into the log is put there again, without being asked for.
func TestUnsent(t *testing.T) {
	w := fleet(t, durable, 10)
	w.reset()
	w.edit(0, "2")
	w.node[0].turn()
	w.half[0].loseCopy()
	delete(w.half[0].log, app(0))
	w.half[0].move = keySet{}
	w.node[0].step(engine.Unsent{Key: app(0)})
	w.settle(4)
	delete(w.half[0].log, engine.ManifestKey)
	w.half[0].move = keySet{}
	w.node[0].step(engine.Unsent{Key: engine.ManifestKey})
	w.settle(4)
	w.expect(t)
	if c := w.counts(); c[0] != 2 || w.asks > 0 {
		t.Errorf("said %v and asked %d times", c, w.asks)
	}
}

// A lost log costs one table; a lost copy costs this side nothing.
func TestLostStores(t *testing.T) {
	w := fleet(t, durable, 100)
	w.reset()
	w.half[0].loseCopy()
	w.settle(6)
	w.expect(t)
	if c := w.counts(); c != [6]int{} {
		t.Errorf("a lost copy made them say %v", c)
	}
	w.half[0].loseLog("another")
	w.node[0].step(w.half[0].opened(uint64(w.node[0].rev)))
	w.settle(6)
	w.expect(t)
	if c := w.counts(); c[0] != 100 || c[1] != 0 || c[4]+c[5] != 0 {
		t.Errorf("a lost log made them say %v", c)
	}
}

// What was refused is not tried again until the peer says something else, and the peer is
// told why.
func TestRefusedOnce(t *testing.T) {
	w := fleet(t, durable, 3)
	w.reset()
	w.edit(1, "bad")
	w.settle(4)
	for i := range 20 {
		w.node[1].change(app(1), func(o *resource.Object) { o.Parts[resource.Status] = w.status(*o, fmt.Sprint(i)) })
		w.settle(2)
	}
	w.expect(t)
	if w.node[1].writes != 1 {
		t.Errorf("tried %d times", w.node[1].writes)
	}
	if got := w.node[0].store[app(1)].Parts[resource.Fault]; got != "bad spec" {
		t.Errorf("the hub says %q", got)
	}
	w.edit(1, "2")
	w.settle(4)
	w.expect(t)
}

// What the link will never take is said so on the object, and the copy stays as it is.
func TestTooLarge(t *testing.T) {
	w := fleet(t, durable, 3)
	w.edit(1, "huge")
	w.settle(6)
	hub, spoke := w.node[0].store[app(1)], w.node[1].store[app(1)]
	if hub.Parts[resource.Fault] != "too large" || spoke.Parts[resource.Spec] != `"1"` || w.err != nil {
		t.Fatalf("%v %v %v", hub, spoke, w.err)
	}
	w.reset()
	w.settle(10)
	if c := w.counts(); c != [6]int{} {
		t.Errorf("they went on to say %v", c)
	}
	w.edit(1, "2")
	w.settle(6)
	w.expect(t)
}

// A store that prunes what it is told causes no loop, also not after a restart.
func TestPruned(t *testing.T) {
	w := fleet(t, durable, 2)
	w.reset()
	w.edit(0, "7pruned")
	w.settle(4)
	w.expect(t)
	if w.node[1].writes != 1 {
		t.Errorf("%d writes", w.node[1].writes)
	}
	w.node[1].restart()
	w.settle(4)
	w.expect(t)
	if w.node[1].writes != 2 {
		t.Errorf("%d writes after a restart", w.node[1].writes)
	}
	w.node[1].change(app(0), func(o *resource.Object) { o.Parts[resource.Spec] = `"meddled"` })
	w.settle(4)
	w.expect(t)
}

// Deletion is confirmed, however long it takes; what comes after under the same name is new.
func TestDeleteAwayAndRecreate(t *testing.T) {
	for _, k := range []linkKind{durable, volatile} {
		w := fleet(t, k, 2)
		w.up = false
		old := w.node[0].store[app(0)].UID
		w.remove(w.node[0], app(0), true)
		for range 100 {
			w.settle(1)
		}
		if o := w.node[0].store[app(0)]; !o.Deleting {
			t.Fatalf("%v did not wait", o)
		}
		w.up = true
		w.settle(6)
		if _, there := w.node[0].store[app(0)]; there {
			t.Fatal("still there")
		}
		w.edit(0, "new")
		w.settle(6)
		w.expect(t)
		if o := w.node[0].store[app(0)]; o.UID == old || o.Parts[resource.Status] != "" {
			t.Errorf("%v", o)
		}
	}
}

// An original without Argo CD's finalizer goes at once, and what its copy deployed stays.
func TestDeleteWithoutCascade(t *testing.T) {
	w := fleet(t, durable, 2)
	w.node[0].change(app(0), func(o *resource.Object) { objectEdit{o}.finalizer(true) })
	w.settle(4)
	if m := meta(w.node[1].store[app(0)]); len(m.Finalizers) == 0 {
		t.Fatal("the copy has no finalizer")
	}
	w.up = false
	w.remove(w.node[0], app(0), false)
	w.settle(2)
	if _, there := w.node[0].store[app(0)]; there {
		t.Fatal("it waits for an agent that is away")
	}
	w.up = true
	w.settle(6)
	w.expect(t)
}

// Deleted and made anew under one name while the agent is away: the copy is replaced, or
// changed in place, as the policy says; if nobody saw the deletion it is taken over.
func TestRecreatedWhileAway(t *testing.T) {
	for _, c := range []struct {
		name      string
		rules     resource.Rules
		policy    string
		unseen    bool
		recreated bool
	}{
		{name: "recreate", recreated: true},
		{name: "upsert", rules: resource.Rules{Mismatch: resource.Upsert}},
		{name: "upsert by annotation", policy: "upsert"},
		{name: "recreate by annotation", rules: resource.Rules{Mismatch: resource.Upsert}, policy: "recreate", recreated: true},
		{name: "unseen", unseen: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := fleet(t, durable, 2)
			w.rules = c.rules
			w.node[1].restart()
			w.settle(2)
			before := w.node[1].store[app(0)].UID
			w.up = false
			if c.unseen {
				w.deleted[w.node[0].store[app(0)].UID] = true
				delete(w.node[0].store, app(0))
			} else {
				w.remove(w.node[0], app(0), false)
				w.settle(1)
			}
			w.edit(0, "new")
			w.node[0].change(app(0), func(o *resource.Object) {
				if c.policy != "" {
					o.Parts[resource.Meta] = resource.Metadata{Annotations: map[string]string{resource.MismatchAnnotation: c.policy}}.Text()
				}
			})
			if !c.unseen {
				w.settle(1)
			}
			w.node[0].restart()
			w.settle(2)
			w.up = true
			w.settle(8)
			w.expect(t)
			if got := w.node[1].store[app(0)].UID != before; got != c.recreated {
				t.Errorf("recreated: %v", got)
			}
		})
	}
}

// A peer that is away is asked once.
func TestAskedOnce(t *testing.T) {
	w := fleet(t, durable, 3)
	w.half[0].put(engine.Message{Key: engine.ManifestKey, Body: engine.Manifest{Epoch: w.half[0].epoch, By: "hub", Count: 99}})
	w.half[0].carry(w.r)
	w.reset()
	w.up = false
	w.settle(200)
	if w.asks != 1 {
		t.Errorf("asked %d times", w.asks)
	}
}

// An Ask that reached the copy while nobody was there is answered by the next process.
func TestAskWaits(t *testing.T) {
	w := fleet(t, durable, 10)
	all := engine.BucketSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	w.half[1].put(engine.Message{Key: engine.AskKey, Body: engine.Ask{Ticket: engine.Ticket{N: 9}, Buckets: all}})
	w.half[1].carry(w.r)
	w.reset()
	w.node[0].restart()
	if w.node[0].data != 10 {
		t.Errorf("answered with %d rows", w.node[0].data)
	}
}

// A copy that cannot be removed is not removed, and its original's successor says why.
func TestRefusedRemove(t *testing.T) {
	w := fleet(t, durable, 1)
	w.norm = true
	w.remove(w.node[0], app(0), false)
	w.edit(0, "new")
	w.settle(4)
	if p := w.node[0].store[app(0)].Parts; w.err != nil || p[resource.Fault] != "may not remove" || p[resource.Status] != "" {
		t.Errorf("%q %v", p, w.err)
	}
}

// An original that waits for a copy which cannot be removed says why, and goes with the copy.
func TestRefusedRemoveOfADeletion(t *testing.T) {
	w := fleet(t, durable, 1)
	w.norm = true
	w.remove(w.node[0], app(0), true)
	w.settle(4)
	if o := w.node[0].store[app(0)]; w.err != nil || !o.Deleting || o.Parts[resource.Fault] != "may not remove" {
		t.Errorf("%+v %v", o, w.err)
	}
	w.norm = false
	w.node[1].step(engine.Retry{Key: app(0)})
	w.settle(8)
	w.expect(t)
}

// Keys that nobody uses any more are forgotten, and what is said again of them is old.
func TestForgotten(t *testing.T) {
	w := fleet(t, durable, 3)
	stale := w.half[0].copy[app(0)]
	w.remove(w.node[0], app(0), false)
	w.settle(6)
	w.expect(t)
	w.reset()
	w.node[1].step(stale)
	w.settle(4)
	w.expect(t)
	if c := w.counts(); c != [6]int{} {
		t.Errorf("an old word of a forgotten key made them say %v", c)
	}
}

// An object that another agent's row made on the hub is not taken over, nor one of the hub's
// own.
func TestForeignOnHub(t *testing.T) {
	for _, origin := range []resource.Origin{{}, {UID: "x1", By: "neighbour"}} {
		w := newWorld(0, resource.Rules{Mode: resource.Autonomous, Adopt: true}, durable)
		w.faulty = false
		w.node[0].put(resource.Object{Key: app(0), Origin: origin, Parts: resource.Parts{resource.Spec: `"hub's"`}})
		w.node[1].put(resource.Object{Key: app(0), Parts: resource.Parts{resource.Spec: `"spoke's"`}})
		w.settle(6)
		w.node[1].delete(app(0))
		w.settle(6)
		if o := w.node[0].store[app(0)]; o.Parts[resource.Spec] != `"hub's"` || o.Origin != origin || w.err != nil {
			t.Errorf("%v %v", o, w.err)
		}
	}
}

// While a copy is being made nobody says that there is none.
func TestGoneWaitsForTheWrite(t *testing.T) {
	w := fleet(t, durable, 1)
	hub, spoke := w.node[0], w.node[1]
	deliver := func() { // what the hub has to say, while the spoke's store is slow
		for hub.turn() {
		}
		for len(w.half[0].move) > 0 {
			w.half[0].carry(w.r)
		}
		for m, ok := w.half[0].next(w.r, false, true); ok; m, ok = w.half[0].next(w.r, false, true) {
			spoke.step(m)
		}
	}
	w.edit(1, "1")
	hub.change(app(1), func(o *resource.Object) { objectEdit{o}.finalizer(true) })
	deliver()
	w.remove(hub, app(1), true)
	deliver()
	if r, ok := w.half[1].log[app(1)].Message.Body.(engine.Record); ok || len(spoke.work) != 1 {
		t.Fatalf("with %v under way the agent said %v", spoke.work, r)
	}
	w.settle(8)
	w.expect(t)
	if _, there := spoke.store[app(1)]; there {
		t.Fatal("the copy is still there")
	}
}
