package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

var errWatch = errors.New("watch was cut")

// A blinkingStore has watches that fail: those that run once cut is called, and all that
// are begun while it is dark.
type blinkingStore struct {
	backend.Store
	cut  atomic.Pointer[context.CancelCauseFunc]
	dark atomic.Bool
}

func (s *blinkingStore) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	if s.dark.Load() {
		return errWatch
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.cut.Store(&cancel)
	return s.Store.Watch(ctx, scope, f)
}

func (s *blinkingStore) darken() {
	s.dark.Store(true)
	(*s.cut.Load())(errWatch)
}

func TestAWatchThatFailsIsBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		blinking := &blinkingStore{Store: r.hub.cluster}
		r.hub.store = blinking
		r.start()
		for _, name := range []string{"changed", "gone", "recreated", "same"} {
			r.hub.set(name, resource.Spec, `{"n":1}`)
		}
		settle(10 * time.Second)
		was, _ := r.spoke.cluster.Get(app("recreated"))
		blinking.darken()
		r.hub.set("changed", resource.Spec, `{"n":2}`)
		r.hub.cluster.Delete(app("gone"))
		r.hub.cluster.Delete(app("recreated"))
		r.hub.set("recreated", resource.Spec, `{"n":1}`)
		r.hub.set("new", resource.Spec, `{"n":1}`)
		settle(10 * time.Second)
		require.ErrorIs(t, r.hub.Status().Err, errWatch)
		require.Equal(t, `{"n":1}`, r.spoke.part("changed", resource.Spec))

		blinking.dark.Store(false)
		settle(time.Minute)
		require.NoError(t, r.hub.Status().Err)
		require.Equal(t, `{"n":2}`, r.spoke.part("changed", resource.Spec))
		require.Equal(t, `{"n":1}`, r.spoke.part("new", resource.Spec))
		_, there := r.spoke.cluster.Get(app("gone"))
		require.False(t, there, "one of four, missing in a whole list: the fuse lets it pass")
		is, _ := r.spoke.cluster.Get(app("recreated"))
		original, _ := r.hub.cluster.Get(app("recreated"))
		require.Equal(t, original.UID, is.Origin.UID)
		require.Equal(t, was.UID, is.UID, "nobody is known to have deleted the old one: it is taken over in place")
	})
}

func TestAStoreThatWentBackInTimeBehindAFailedWatchDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		blinking := &blinkingStore{Store: r.hub.cluster}
		r.hub.store = blinking
		r.start()
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			r.hub.set(name, resource.Spec, `{"n":1}`)
		}
		old := r.hub.cluster.Snapshot()
		r.hub.set("young", resource.Spec, `{"n":1}`)
		settle(10 * time.Second)
		blinking.darken()
		settle(0)
		r.hub.cluster.Restore(old)
		blinking.dark.Store(false)
		settle(time.Minute)
		require.Equal(t, `{"n":1}`, r.spoke.part("young", resource.Spec), "kept until somebody approves")
		held := r.hub.Status().Engine.Theirs
		require.Len(t, held, 1)
		require.Equal(t, app("young"), held[0].Key)
	})
}

func TestAnOutcomeWaitsForItsEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		blinking := &blinkingStore{Store: r.spoke.cluster}
		counting := &countingStore{blinkingStore: blinking}
		r.spoke.store = counting
		r.start()
		r.hub.set("a", resource.Spec, `{"n":1}`)
		settle(10 * time.Second)
		blinking.darken()
		settle(0)
		counting.writes.Store(0)
		r.hub.set("a", resource.Spec, `{"n":2}`)
		settle(time.Second)
		require.Equal(t, `{"n":2}`, r.spoke.part("a", resource.Spec), "writing needs no watch")
		r.hub.set("a", resource.Spec, `{"n":3}`)
		settle(time.Second)
		require.EqualValues(t, 1, counting.writes.Load(), "the next one is not begun on what is not known")
		blinking.dark.Store(false)
		settle(time.Minute)
		require.Equal(t, `{"n":3}`, r.spoke.part("a", resource.Spec))
		require.EqualValues(t, 2, counting.writes.Load())
	})
}

type countingStore struct {
	*blinkingStore
	writes atomic.Int64
}

func (s *countingStore) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	s.writes.Add(1)
	return s.blinkingStore.Write(ctx, want)
}

func TestApprovalLetsThePeerRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		for _, name := range []string{"a", "b", "c"} {
			r.hub.set(name, resource.Spec, `{}`)
		}
		settle(10 * time.Second)
		r.hub.stop()
		r.hub.cluster = memstore.New(memstore.Config{Name: "hub-2"})
		r.hub.store = r.hub.cluster
		r.hub.start()
		settle(time.Minute)
		require.Len(t, r.spoke.cluster.All(), 3, "an empty hub deletes nothing")
		held := r.hub.Status().Engine.Theirs
		require.Len(t, held, 3)
		require.NoError(t, r.hub.Approve(t.Context(), engine.HeldDigest(held)))
		settle(time.Minute)
		require.Empty(t, r.spoke.cluster.All())
	})
}

// A shiftingStore changes while it is listed.
type shiftingStore struct {
	backend.Store
	change func()
}

func (s shiftingStore) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	return s.Store.Watch(ctx, scope, func(e backend.Event) error {
		if s.change(); e.Synced != nil {
			s.change = func() {}
		}
		return f(e)
	})
}

// TestAStoreThatChangesWhileItIsListedIsNotYounger: what is shown of it may be newer than the list, which
// is no store that went back in time. So what was deleted while nobody watched is removed.
func TestAStoreThatChangesWhileItIsListedIsNotYounger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		for _, name := range []string{"a", "gone", "z"} {
			r.hub.set(name, resource.Spec, `{"n":1}`)
		}
		settle(10 * time.Second)
		r.hub.stop()
		r.net.Lose(agentName, memlink.HubLog)
		r.hub.cluster.Delete(app("gone"))
		n := 1
		r.hub.store = shiftingStore{r.hub.cluster, func() {
			n++
			r.hub.set("z", resource.Spec, fmt.Sprintf(`{"n":%d}`, n))
		}}
		r.hub.start()
		settle(time.Minute)
		require.Empty(t, r.spoke.Status().Engine.Held)
		require.Len(t, r.spoke.cluster.All(), 2)
		require.Equal(t, fmt.Sprintf(`{"n":%d}`, n), r.spoke.part("z", resource.Spec))
	})
}
