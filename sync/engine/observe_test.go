package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestObserving runs seeded schedules in which the agent's writes are withheld, but of keys
// that are adopted for a time. While they are it must come to rest, say so, and know what it
// would do; and once nothing is withheld all must agree.
func TestObserving(t *testing.T) {
	for _, k := range []linkKind{durable, volatile} {
		for _, mode := range []resource.Mode{resource.Managed, resource.Autonomous} {
			t.Run(fmt.Sprintf("%v/%v", k, mode), func(t *testing.T) {
				each(t, func(seed uint64) error { return observe(seed, resource.Rules{Mode: mode, Adopt: true}, k) })
			})
		}
	}
}

func observe(seed uint64, rules resource.Rules, k linkKind) error {
	w := newWorld(seed, rules, k)
	spoke := w.node[1]
	spoke.adopted = keySet{}
	for i := range 300 {
		w.now = w.now.Add(time.Second)
		switch w.r.IntN(12) {
		case 0:
			k := w.key()
			spoke.adopted[k] = !spoke.adopted[k]
			spoke.step(engine.Retry{Key: k})
		case 1:
			spoke.shut = i < 250 && w.r.IntN(3) > 0
		}
		w.disturb()
		for range w.r.IntN(6) {
			w.flow()
		}
	}
	w.faulty, w.up, spoke.shut = false, true, true
	for _, n := range w.node {
		n.step(engine.Presence{Peer: true})
	}
	w.settle(20)
	before := w.counts()
	w.settle(6)
	if after := w.counts(); w.err == nil && after != before {
		return fmt.Errorf("not silent while it observes: %v then %v", before, after)
	}
	if w.err == nil {
		w.err = w.observed()
	}
	if w.err != nil {
		return w.err
	}
	w.unshut()
	w.settle(20)
	if err := w.approve(); err != nil {
		return err
	}
	for _, c := range spoke.eng.Plan(w.now) {
		if o := c.Becomes[len(c.Becomes)-1]; w.err == nil && (o == nil || !spoke.refuses(*o)) {
			return fmt.Errorf("with nothing withheld it would still do %v", c)
		}
	}
	return w.finally()
}

// observed judges an agent that observes, and is at rest: what it would change is withheld or
// has failed for good, and what is withheld is what it would change.
func (w *world) observed() error {
	spoke := w.node[1]
	plan := map[resource.Key]engine.Change{}
	for _, c := range spoke.eng.Plan(w.now) {
		plan[c.Key] = c
		if o, there := spoke.store[c.Key]; there != (c.Is != nil) || there && o != *c.Is {
			return fmt.Errorf("it would change %v, which is %v", c.Is, o)
		}
	}
	if d := spoke.eng.Status().Denied; d > len(plan) {
		return fmt.Errorf("%d are withheld of a plan of %d", d, len(plan))
	}
	if w.rules.Mode != resource.Managed {
		return nil
	}
	for k, o := range w.node[0].store {
		_, would := plan[k]
		says := strings.Contains(o.Parts[resource.Pending], "only observes")
		silent := o.Deleting || o.Excluded || strings.Contains(o.Parts[resource.Spec], "huge") || o.Parts[resource.Fault] != "" ||
			spoke.adopted[k] || w.babel[k] || k.Kind != resource.Application || spoke.store[k].Excluded || spoke.store[k].Deleting
		if !silent && would != says {
			return fmt.Errorf("%v: it would change %v, and says %q", k, plan[k], o.Parts[resource.Pending])
		}
	}
	return nil
}

// unshut has nothing withheld any more, as if all were adopted.
func (w *world) unshut() {
	spoke := w.node[1]
	spoke.shut = false
	for _, c := range spoke.eng.Plan(w.now) {
		spoke.step(engine.Retry{Key: c.Key})
	}
}

// joined returns a world in which the spoke had its Application before the agent came, which
// observes.
func joined(t *testing.T) *world {
	t.Helper()
	w := newWorld(0, resource.Rules{Adopt: true}, durable)
	w.faulty = false
	spoke := w.node[1]
	spoke.shut, spoke.adopted = true, keySet{}
	spoke.put(resource.Object{Key: app(0), Parts: resource.Parts{resource.Spec: `"before"`}})
	spoke.change(app(0), func(o *resource.Object) { o.Parts[resource.Status] = w.status(*o, "theirs") })
	w.edit(0, "1")
	w.settle(8)
	require.NoError(t, w.err)
	return w
}

// An Application that was there before is as it was, nothing is told of it, and the hub says
// why. Once it is adopted it is the hub's.
func TestObservedAndAdopted(t *testing.T) {
	w := joined(t)
	hub, spoke := w.node[0], w.node[1]
	require.Equal(t, `"before"`, spoke.store[app(0)].Parts[resource.Spec])
	require.Zero(t, spoke.store[app(0)].Origin)
	o := hub.store[app(0)]
	require.Equal(t, "agent spoke only observes, and does not write this; see argocd-agentctl plan spoke", o.Parts[resource.Pending])
	require.Empty(t, o.Parts[resource.Fault], "it is none")
	require.Empty(t, o.Parts[resource.Status], "that is not of a copy")
	require.Empty(t, spoke.eng.Faults(app(0)), "no letter is written")
	plan := spoke.eng.Plan(w.now)
	require.Len(t, plan, 1)
	require.Equal(t, spoke.store[app(0)], *plan[0].Is)
	require.Len(t, plan[0].Becomes, 1)
	require.Equal(t, o.UID, plan[0].Becomes[0].Origin.UID)
	require.Equal(t, `"1"`, plan[0].Becomes[0].Parts[resource.Spec])

	w.reset()
	w.settle(50)
	require.Zero(t, w.counts(), "it does not try again and again")

	spoke.adopted[app(0)] = true
	spoke.step(engine.Retry{Key: app(0)})
	w.settle(8)
	w.expect(t)
	require.Empty(t, spoke.eng.Plan(w.now))
	require.Contains(t, hub.store[app(0)].Parts[resource.Status], "theirs")
	require.Empty(t, hub.store[app(0)].Parts[resource.Pending])
}

// It is let go again: it loses its marks, stays as it is, and follows no more.
func TestAdoptedAndLetGo(t *testing.T) {
	w := joined(t)
	hub, spoke := w.node[0], w.node[1]
	spoke.adopted[app(0)] = true
	spoke.step(engine.Retry{Key: app(0)})
	w.settle(8)
	delete(spoke.adopted, app(0))
	spoke.change(app(0), func(o *resource.Object) { o.Origin = resource.Origin{} })
	w.edit(0, "2")
	w.settle(8)
	require.NoError(t, w.err)
	require.Equal(t, `"1"`, spoke.store[app(0)].Parts[resource.Spec])
	require.Contains(t, hub.store[app(0)].Parts[resource.Pending], "only observes")
	require.Empty(t, hub.store[app(0)].Parts[resource.Status])
	w.unshut()
	w.settle(8)
	w.expect(t)
}

// A copy whose original is deleted stays, and its deletion is not confirmed.
func TestObservedDeletion(t *testing.T) {
	w := fleet(t, durable, 2)
	hub, spoke := w.node[0], w.node[1]
	spoke.shut, spoke.adopted = true, keySet{}
	spoke.restart()
	hub.step(engine.Presence{Peer: true})
	for i, all := range []bool{true, false} {
		w.remove(hub, app(i), all)
	}
	w.settle(12)
	require.NoError(t, w.err)
	require.True(t, hub.store[app(0)].Deleting, "it waits for its copy")
	require.Contains(t, hub.store[app(0)].Parts[resource.Pending], "only observes")
	plan := spoke.eng.Plan(w.now)
	require.Len(t, plan, 2)
	for i, c := range plan {
		require.False(t, spoke.store[app(i)].Deleting)
		require.Nil(t, c.Becomes[len(c.Becomes)-1], "it would be removed")
	}
	require.Equal(t, meta(hub.store[app(0)]).Finalizers, meta(*plan[0].Becomes[0]).Finalizers, "it would be deleted as its original is")
	w.unshut()
	w.settle(12)
	w.expect(t)
	require.Empty(t, spoke.store)
}

// An operation that was asked for waits, and runs once.
func TestObservedOperation(t *testing.T) {
	w := fleet(t, durable, 1)
	hub, spoke := w.node[0], w.node[1]
	spoke.shut, spoke.adopted = true, keySet{}
	hub.change(app(0), func(o *resource.Object) { w.operate(o) })
	w.settle(8)
	require.Empty(t, spoke.store[app(0)].Parts[resource.Operation])
	require.NotEmpty(t, hub.store[app(0)].Parts[resource.Operation])
	plan := spoke.eng.Plan(w.now)
	require.Len(t, plan, 1)
	require.NotEmpty(t, plan[0].Becomes[0].Parts[resource.Operation])
	w.unshut()
	w.settle(2)
	require.NotEmpty(t, spoke.store[app(0)].Parts[resource.OpID])
}

// A Retry that comes while a write is on its way to be withheld is not lost.
func TestAdoptedWhileWithheld(t *testing.T) {
	w := joined(t)
	spoke := w.node[1]
	spoke.adopted = nil
	w.edit(0, "2")
	for !slices.ContainsFunc(spoke.watch, func(e watched) bool { _, ok := e.event.(engine.Wrote); return ok }) {
		require.True(t, w.flow())
	}
	spoke.shut = false
	spoke.step(engine.Retry{Key: app(0)})
	w.settle(1)
	require.Equal(t, `"2"`, spoke.store[app(0)].Parts[resource.Spec])
}

// A plan looks ahead: what is deleted and made anew is so in one step.
func TestPlanLooksAhead(t *testing.T) {
	w := fleet(t, durable, 1)
	hub, spoke := w.node[0], w.node[1]
	spoke.shut = true
	w.up = false
	w.remove(hub, app(0), false)
	for hub.turn() {
	}
	require.Empty(t, hub.store)
	w.edit(0, "2")
	w.up = true
	w.settle(8)
	plan := spoke.eng.Plan(w.now)
	require.Len(t, plan, 1)
	require.Equal(t, spoke.store[app(0)], *plan[0].Is)
	n := len(plan[0].Becomes)
	require.Nil(t, plan[0].Becomes[n-2])
	require.Equal(t, hub.store[app(0)].UID, plan[0].Becomes[n-1].Origin.UID)
	require.Empty(t, engine.New(w.config(resource.Agent)).Plan(w.now), "before it knows its log it would do nothing")
}
