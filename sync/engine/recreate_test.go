package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// vandalised returns a fleet of one with this policy, whose copy a user of the spoke has
// deleted with all that it had deployed, just now.
func vandalised(t *testing.T, policy resource.Recreation) (w *world, before resource.Object) {
	t.Helper()
	w = fleet(t, durable, 1)
	w.rules.Recreate = policy
	spoke := w.node[1]
	spoke.restart()
	w.settle(4)
	spoke.change(app(0), func(o *resource.Object) {
		o.Parts[resource.OpState] = resource.FailedOperation(`{"sync":{}}`, "it was so", w.now, w.now)
		objectEdit{o}.finalizer(false)
	})
	w.settle(4)
	require.NotEmpty(t, w.node[0].store[app(0)].Parts[resource.OpState])
	before = spoke.store[app(0)]
	spoke.delete(app(0))
	return w, before
}

// A copy that a user has deleted is made again, and begins anew on both sides, whatever the
// policy.
func TestRecreatedCopyBeginsAnew(t *testing.T) {
	for _, policy := range []resource.Recreation{resource.Ignored, resource.Cleared} {
		w, before := vandalised(t, policy)
		hub, spoke := w.node[0], w.node[1]
		w.settle(8)
		copied := spoke.store[app(0)]
		require.NotEqual(t, before.UID, copied.UID)
		require.Equal(t, before.Origin, copied.Origin)
		require.Equal(t, before.Parts[resource.Spec], copied.Parts[resource.Spec])
		for _, p := range []resource.Part{resource.Status, resource.OpState, resource.Operation} {
			require.Empty(t, copied.Parts[p], p)
			require.Empty(t, hub.store[app(0)].Parts[p], p)
		}
		spoke.change(app(0), func(o *resource.Object) { o.Parts[resource.Status] = w.status(*o, "fresh") })
		w.settle(8)
		w.expect(t)
		require.Contains(t, hub.store[app(0)].Parts[resource.Status], "fresh")
	}
}

// Resynced: besides, it is asked to bring back what it had deployed, once, in the write that
// makes it.
func TestRecreatedCopyIsSynced(t *testing.T) {
	w, before := vandalised(t, resource.Resynced)
	spoke := w.node[1]
	w.up = false // also while nobody is there
	for w.flow() {
	}
	copied := spoke.store[app(0)]
	require.NotEqual(t, before.UID, copied.UID)
	require.JSONEq(t, `{"initiatedBy":{"automated":true,"username":"argocd-agent"},"sync":{}}`, copied.Parts[resource.Operation])

	spoke.change(app(0), func(o *resource.Object) { o.Parts[resource.Operation] = "" }) // it has run
	w.reset()
	w.settle(20)
	require.Empty(t, spoke.store[app(0)].Parts[resource.Operation], "it is asked once")
	require.Zero(t, w.counts()[5])
}

// What the agent makes for the first time, or has removed itself, it does not ask to be synced.
func TestFirstCopyIsNotSynced(t *testing.T) {
	w := newWorld(0, resource.Rules{Adopt: true, Recreate: resource.Resynced}, durable)
	w.faulty = false
	hub, spoke := w.node[0], w.node[1]
	w.edit(0, "1")
	w.settle(8)
	require.Empty(t, spoke.store[app(0)].Parts[resource.Operation])

	first := hub.store[app(0)]
	w.remove(hub, app(0), false)
	w.edit(0, "1")
	w.settle(8)
	second := spoke.store[app(0)]
	require.NotEqual(t, first.UID, second.Origin.UID)
	require.Empty(t, second.Parts[resource.Operation], "its original was made anew")

	// Its original is gone, and comes back as it was from a backup.
	original := hub.store[app(0)]
	delete(spoke.slow, app(0))
	w.remove(hub, app(0), false)
	for len(spoke.store) > 0 {
		require.True(t, w.flow())
	}
	hub.put(original)
	w.settle(8)
	require.Equal(t, original.UID, spoke.store[app(0)].Origin.UID)
	require.Empty(t, spoke.store[app(0)].Parts[resource.Operation], "nobody here has deleted it")
}

// What the hub has asked for, and has not ended, comes first.
func TestRecreatedCopyRunsWhatWasAskedFor(t *testing.T) {
	w := fleet(t, durable, 1)
	w.rules.Recreate = resource.Resynced
	hub, spoke := w.node[0], w.node[1]
	spoke.restart()
	spoke.shut = true // so that it has heard of it, and not begun
	hub.change(app(0), func(o *resource.Object) { w.operate(o) })
	w.settle(4)
	spoke.change(app(0), func(o *resource.Object) { objectEdit{o}.finalizer(false) })
	spoke.delete(app(0))
	w.settle(4)
	require.Empty(t, spoke.store)
	w.unshut()
	for spoke.store[app(0)].UID == "" {
		require.True(t, w.flow())
	}
	require.Equal(t, hub.store[app(0)].Parts[resource.Operation], spoke.store[app(0)].Parts[resource.Operation])
	w.settle(8)
	w.expect(t)
}
