package engine_test

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

var (
	seeds = flag.Uint64("seeds", 100, "schedules to try, for each mode, policy and kind of link")
	first = flag.Uint64("first", 0, "the first of them")
	steps = flag.Bool("steps", false, "print every step")
)

// TestConvergence runs seeded schedules of trouble and demands that, once it ends, both
// stores agree and both sides fall silent. The default ones come to every row of the tables.
func TestConvergence(t *testing.T) {
	v, played := newVisits(), 0
	for _, k := range []linkKind{durable, volatile} {
		for _, mode := range []resource.Mode{resource.Managed, resource.Autonomous} {
			for _, adopt := range []bool{false, true} {
				rules := resource.Rules{Mode: mode, Adopt: adopt}
				if adopt {
					rules.Mismatch = resource.Upsert
				}
				t.Run(fmt.Sprintf("%v/%v/adopt=%v", k, mode, adopt), func(t *testing.T) {
					played++
					each(t, func(seed uint64) error { return run(seed, rules, k, v) })
				})
			}
		}
	}
	if played == 8 && *first == 0 && *seeds >= 100 {
		v.complete(t)
	}
}

func run(seed uint64, rules resource.Rules, k linkKind, v *visits) error {
	w := newWorld(seed, rules, k)
	w.visits = v
	if seed%3 == 0 {
		w.expiry = 2 * time.Minute
		w.node[1].restart()
	}
	w.lapse = []time.Duration{0, 5 * time.Second, time.Minute}[seed%3] // a principal learns of it when it starts
	for i := range 300 {
		if i == 150 && seed%8 == 3 && rules.Mode == resource.Managed {
			w.hubID = "another"
			w.node[0].restart() // without knowing whether the agent is there
		}
		w.now = w.now.Add(time.Second)
		w.disturb()
		for range w.r.IntN(6) {
			w.flow()
		}
		if w.err != nil {
			return w.err
		}
	}
	w.faulty, w.up = false, true
	for _, n := range w.node {
		n.step(engine.Presence{Peer: true})
	}
	w.settle(20)
	if err := w.approve(); err != nil {
		return err
	}
	for _, n := range w.node {
		if n.data > n.allowed {
			return fmt.Errorf("%v sent %d rows, %d were called for", n.side, n.data, n.allowed)
		}
	}
	if seed%4 == 1 {
		if err := w.calamity(seed%8 == 1 && rules.Mode == resource.Managed); err != nil {
			return err
		}
	}
	return w.finally()
}

// calamity has the owner's side lose all that it has, or renew it as another hub.
func (w *world) calamity(renew bool) error {
	own := w.ownerNode()
	for _, k := range sortedKeys(own.store) {
		o := own.store[k]
		switch {
		case !w.owner(own, k):
		case renew:
			w.destroyed(own, o)
			w.renew(k)
		default:
			w.destroyed(own, o)
			w.deleted[o.UID] = true // though nobody saw it, and nobody wanted its workloads to go
			delete(own.store, k)
		}
	}
	if renew {
		w.hubID = "yet another"
	}
	own.restart()
	own.step(engine.Presence{Peer: true})
	w.settle(20)
	return w.approve()
}

// approve has what is held back removed, as a user would who knows that it was deleted.
func (w *world) approve() error {
	for i, n := range w.node {
		held := n.eng.Status().Held
		if len(held) == 0 || w.err != nil {
			continue
		}
		for _, a := range held {
			if !w.deleted[a.UID] {
				return fmt.Errorf("%v holds back %v, whose original is there", n.side, a)
			}
		}
		w.node[1-i].step(engine.Approved{Of: engine.HeldDigest(w.node[1-i].eng.Status().Theirs)})
		w.settle(4)
	}
	return w.err
}

// finally demands silence and agreement.
func (w *world) finally() error {
	before := w.counts()
	w.settle(6)
	if after := w.counts(); w.err == nil && after != before {
		return fmt.Errorf("not silent: %v then %v", before, after)
	}
	if w.err == nil {
		w.err = w.agree()
	}
	return w.err
}

// agree judges the end.
func (w *world) agree() error {
	hub, spoke := w.node[0], w.node[1]
	own, other := w.ownerNode(), w.node[1-w.rules.Mode]
	apart := map[resource.Key]bool{} // the copy cannot be what it should be
	all := maps.Clone(hub.store)
	maps.Copy(all, spoke.store)
	for _, k := range sortedKeys(all) {
		o, there := own.store[k]
		c, copied := other.store[k]
		switch {
		case copied && c.Excluded || there && (o.Excluded || strings.Contains(o.Parts[resource.Spec], "huge")):
			apart[k] = true
			continue
		case copied && c.Origin.By == neighbour:
			apart[k] = true
			continue
		case !there && copied && c.Origin.UID != "":
			return fmt.Errorf("%v has no original", c)
		case !there:
			continue
		case o.Deleting:
			return fmt.Errorf("%v is still going; copy %v", o, c)
		case copied && c.Origin.UID == "" && !w.rules.Adopts(other.side, c), o.Parts[resource.Spec] == `"bad"`:
			apart[k] = true
			if w.rules.Mode == resource.Managed && k.Kind == resource.Application && o.Parts[resource.Fault] == "" && o.Parts[resource.Spec] != c.Parts[resource.Spec] {
				return fmt.Errorf("%v does not say why its copy is %v", o, c)
			}
			continue
		}
		if err := w.equal(o, c, hub.store[k], spoke.store[k]); err != nil {
			return err
		}
	}
	for _, n := range w.node {
		if !n.eng.InStep() {
			return fmt.Errorf("%v: not in step", n.side)
		}
	}
	return w.judgeRequests(apart)
}

// equal judges one original o and its copy c.
func (w *world) equal(o, c, atHub, atSpoke resource.Object) error {
	if c.UID == "" || c.Origin.UID != o.UID || c.Parts[resource.Spec] != strings.ReplaceAll(o.Parts[resource.Spec], "pruned", "") {
		return fmt.Errorf("%v has copy %v", o, c)
	}
	mo, mc := meta(o), meta(c)
	for _, k := range []string{"key0", "key1"} {
		if w.unlike(c, mo.Labels, mc.Labels, k) || w.unlike(c, mo.Annotations, mc.Annotations, k) {
			return fmt.Errorf("metadata: %v has copy %v", o, c)
		}
	}
	if fmt.Sprint(mo.Finalizers) != fmt.Sprint(mc.Finalizers) {
		return fmt.Errorf("finalizers: %v has copy %v", o, c)
	}
	if w.foreign[c.UID] && mc.Annotations["foreign"] == "" {
		return fmt.Errorf("%v has lost somebody else's key", c)
	}
	for _, p := range []resource.Part{resource.Status, resource.OpState} {
		if atHub.Parts[p] != atSpoke.Parts[p] {
			return fmt.Errorf("%v: hub %v, spoke %v", p, atHub, atSpoke)
		}
	}
	if atHub.Parts[resource.Fault] != "" || atHub.Parts[resource.Pending] != "" || atHub.Parts[resource.Held] != "" {
		return fmt.Errorf("%v reports what is no more", atHub)
	}
	for _, p := range []resource.Part{resource.Operation, resource.OpID, resource.Refresh, resource.RefreshMark} {
		if atHub.Parts[p] != "" {
			return fmt.Errorf("%v: %v was not handed off", p, atHub)
		}
	}
	if s := atHub.Parts[resource.OpState]; s != "" && !resource.OperationFinished(s) {
		return fmt.Errorf("%v: the operation never ended", atHub)
	}
	return nil
}

// unlike reports whether a copy's value of one of the owner's keys is wrong. One that the
// owner does not have may stay where somebody else has made it his.
func (w *world) unlike(c resource.Object, owner, copy map[string]string, key string) bool {
	_, has := owner[key]
	return owner[key] != copy[key] && (has || !w.blurred[c.UID])
}

// each runs f for every seed, on all processors.
func each(t *testing.T, f func(seed uint64) error) {
	t.Helper()
	var wg sync.WaitGroup
	p := uint64(runtime.GOMAXPROCS(0))
	for i := range p {
		wg.Go(func() {
			for seed := *first + i; seed < *first+*seeds && !t.Failed(); seed += p {
				if err := f(seed); err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
