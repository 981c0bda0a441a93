package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A disaster is something that happens to a hub as a whole. Nothing on a spoke may be
// removed because of it.
type disaster struct {
	name string
	// strike makes it happen while the principal is stopped; saved is the hub's store and
	// revision of some time before.
	strike func(w *world, saved map[resource.Key]resource.Object, rev int)
	back   bool // what was made since is missing, and must be held back
	all    bool // everything is missing, and must be held back
	same   bool // what is there is the same apps under new UIDs: taken over in place
	lacks  bool // one of them is missing, and must be held back
}

var disasters = []disaster{
	{name: "emptied", all: true, strike: func(w *world, _ map[resource.Key]resource.Object, _ int) {
		w.node[0].store = map[resource.Key]resource.Object{}
	}},
	{name: "mis-scoped", all: true, strike: func(w *world, _ map[resource.Key]resource.Object, _ int) {
		w.node[0].blind = true
	}},
	{name: "restored by snapshot", back: true, strike: func(w *world, saved map[resource.Key]resource.Object, rev int) {
		w.node[0].store, w.node[0].rev = maps.Clone(saved), rev
	}},
	{name: "restored by snapshot, log lost", back: true, strike: func(w *world, saved map[resource.Key]resource.Object, rev int) {
		w.node[0].store, w.node[0].rev = maps.Clone(saved), rev
		w.half[0].loseLog(w.random())
	}},
	{name: "restored by manifests", same: true, strike: func(w *world, _ map[resource.Key]resource.Object, _ int) {
		for _, k := range sortedKeys(w.node[0].store) {
			w.renew(k)
		}
	}},
	{name: "restored by manifests in another cluster", same: true, strike: func(w *world, _ map[resource.Key]resource.Object, _ int) {
		w.hubID, w.node[0].rev = "another", 1
		for _, k := range sortedKeys(w.node[0].store) {
			w.renew(k)
		}
		w.half[0].loseLog(w.random())
	}},
	{name: "another hub that lacks one", same: true, lacks: true, strike: func(w *world, _ map[resource.Key]resource.Object, _ int) {
		w.hubID = "another"
		for i, k := range sortedKeys(w.node[0].store) {
			if i == 0 {
				delete(w.node[0].store, k)
				continue
			}
			w.renew(k)
		}
	}},
	{name: "identity lost and emptied", all: true, strike: func(w *world, _ map[resource.Key]resource.Object, _ int) {
		w.hubID, w.node[0].store = "another", map[resource.Key]resource.Object{}
	}},
}

// renew makes an original anew under its name, as applying a manifest does.
func (w *world) renew(k resource.Key) {
	n := w.node[0]
	o := n.store[k]
	o.UID, o.Parts[resource.Status], o.Parts[resource.OpState] = w.uid(n.side), "", ""
	w.born[o.UID] = true
	w.line[k] = append(w.line[k], o.UID)
	n.rev++
	o.Version = fmt.Sprint(n.rev)
	n.store[k] = o
}

// TestDisasters lets each disaster strike a fleet at a seeded time, with the agent there,
// away, or restarted, and demands that no copy goes and no workload stops.
func TestDisasters(t *testing.T) {
	for _, d := range disasters {
		for _, k := range []linkKind{durable, volatile} {
			t.Run(fmt.Sprintf("%s/%v", d.name, k), func(t *testing.T) {
				each(t, func(seed uint64) error { return d.run(seed, k) })
			})
		}
	}
}

func (d disaster) run(seed uint64, k linkKind) error {
	w := newWorld(seed, resource.Rules{}, k)
	w.faulty, w.calm, w.names = false, true, 12
	hub, spoke := w.node[0], w.node[1]
	w.populate(8)
	w.settle(8)
	w.deploy()
	saved, rev := maps.Clone(hub.store), hub.rev
	w.populate(w.r.IntN(4))
	w.settle(8)
	w.deploy()
	if w.err == nil {
		w.err = w.agree()
	}
	if w.err != nil {
		return fmt.Errorf("before: %w", w.err)
	}
	before := maps.Clone(spoke.store)
	w.up = w.r.IntN(2) == 0
	d.strike(w, saved, rev)
	// An agent that keeps nothing cannot know that its hub was younger than before.
	forgets := k == volatile && d.back
	if !forgets && w.r.IntN(2) == 0 {
		spoke.restart()
	}
	hub.restart()
	w.settle(8)
	w.up = true
	if !forgets && w.r.IntN(3) == 0 {
		spoke.restart()
	}
	w.settle(10)
	return d.judge(w, before)
}

// populate creates up to n Applications that can be delivered.
func (w *world) populate(n int) {
	hub := w.node[0]
	for range n {
		if k := w.key(); hub.store[k].UID == "" {
			w.create(hub, k)
			hub.change(k, func(o *resource.Object) { o.Parts[resource.Spec] = `"1"` })
		}
	}
}

// deploy lets Argo CD bring up what is on the spoke.
func (w *world) deploy() {
	w.faulty = true
	for _, k := range sortedKeys(w.node[1].store) {
		w.argo(k)
	}
	w.faulty = false
	w.settle(6)
}

// judge demands that nothing was lost, that what is missing at the hub is held back, and
// that it goes, without what it deployed, once somebody approves.
func (d disaster) judge(w *world, before map[resource.Key]resource.Object) error {
	hub, spoke := w.node[0], w.node[1]
	if w.err != nil {
		return w.err
	}
	var missing []resource.Key
	for _, k := range sortedKeys(before) {
		switch c := spoke.store[k]; {
		case c.UID != before[k].UID:
			return fmt.Errorf("%v is no more what it was: %v", before[k], c)
		case c.Deleting:
			return fmt.Errorf("%v is being deleted", c)
		case d.same && hub.store[k].UID != "" && c.Origin != (resource.Origin{UID: hub.store[k].UID, By: w.hubID}):
			return fmt.Errorf("%v was not taken over by %v", c, hub.store[k])
		}
		if _, there := hub.store[k]; !there || hub.blind {
			missing = append(missing, k)
		}
	}
	if d.all && len(missing) != len(before) || d.same && !d.lacks && len(missing) != 0 || d.lacks && len(missing) != 1 {
		return fmt.Errorf("the disaster did not strike: %d of %d are missing", len(missing), len(before))
	}
	var held []resource.Key
	for _, a := range spoke.eng.Status().Held {
		held = append(held, a.Key)
	}
	if !slices.Equal(held, missing) {
		return fmt.Errorf("%v are missing, %v are held", missing, held)
	}
	if theirs := hub.eng.Status().Theirs; len(theirs) != len(missing) {
		return fmt.Errorf("the hub knows of %v held, not of %v", theirs, missing)
	}
	return d.recover(w, missing)
}

// recover ends it: the hub is mended, or the user approves.
func (d disaster) recover(w *world, missing []resource.Key) error {
	hub, spoke := w.node[0], w.node[1]
	if w.r.IntN(2) == 0 || len(missing) == 0 {
		hub.blind = false
		for _, k := range missing {
			if hub.store[k].UID == "" {
				c := spoke.store[k]
				w.born[c.Origin.UID] = true
				hub.store[k] = resource.Object{Key: k, UID: c.Origin.UID, Parts: resource.Parts{resource.Spec: c.Parts[resource.Spec], resource.Meta: c.Parts[resource.Meta]}}
				w.renew(k)
			}
		}
		hub.restart()
		w.settle(12)
		if w.err == nil && len(spoke.eng.Status().Held)+len(hub.eng.Status().Theirs) > 0 {
			return fmt.Errorf("still held: %v", spoke.eng.Status())
		}
		return w.finally()
	}
	for _, a := range spoke.eng.Status().Held {
		w.deleted[a.UID] = true // but not with what it deployed
	}
	hub.step(engine.Approved{Of: engine.HeldDigest(hub.eng.Status().Theirs)})
	w.settle(8)
	for _, k := range missing {
		if c, there := spoke.store[k]; there && w.err == nil {
			return fmt.Errorf("%v was approved and is there", c)
		}
	}
	if hub.blind {
		return w.err
	}
	return w.finally()
}

// TestFuseCounts holds the numbers of the fuse: how many absences are taken for removals
// that were missed, by how many copies there are and what was removed before.
func TestFuseCounts(t *testing.T) {
	for _, c := range []struct {
		copies, missing, before int
		held                    bool
	}{
		{copies: 1, missing: 1}, {copies: 2, missing: 2, held: true}, {copies: 10, missing: 5}, {copies: 10, missing: 6, held: true},
		{copies: 50, missing: 10}, {copies: 50, missing: 11, held: true}, {copies: 45, missing: 3, before: 5}, {copies: 20, missing: 3, before: 3, held: true},
	} {
		t.Run(fmt.Sprintf("%d of %d after %d", c.missing, c.copies, c.before), func(t *testing.T) {
			w := fleet(t, durable, c.copies)
			lose := func(from, n int) {
				for i := range n {
					w.deleted[w.node[0].store[app(from+i)].UID] = true
					delete(w.node[0].store, app(from+i)) // while nobody looked
				}
				w.node[0].restart()
				w.settle(6)
			}
			lose(0, c.before)
			lose(c.before, c.missing)
			held := w.node[1].eng.Status().Held
			if got := len(held) > 0; got != c.held || w.err != nil {
				t.Fatalf("held %v, %v", held, w.err)
			}
			if c.held {
				return
			}
			w.expect(t)
			w.now = w.now.Add(25 * time.Hour)
			w.settle(2)
			if n := w.half[1].log[engine.FuseKey].Message.Body; n != (engine.Tombstone{}) {
				t.Errorf("a day later %v is still remembered", n)
			}
		})
	}
}
