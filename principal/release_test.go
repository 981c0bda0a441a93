package principal

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Deletions that wait for an agent which is away are let go by force: those that were shown,
// each with a line in the log, and nothing else of them is changed. While the agent is there
// nothing is forced.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.WarnLevel)
		f := startWith(t, zap.New(core), nil)
		defer f.end()
		f.roll <- []backend.Agent{{Name: "one"}, {Name: "two"}}
		for _, k := range []resource.Key{app("one", "web"), app("one", "stays"), app("two", "web")} {
			f.store.Edit(k, func(o *resource.Object) {
				o.Parts[resource.Spec] = `{"destination":{"name":"` + k.Namespace + `"}}`
				o.Parts[resource.Meta] = resource.Metadata{Finalizers: []string{"resources-finalizer.argocd.argoproj.io"}}.Text()
			})
		}
		_, stop := f.spoke("one", resource.Managed)
		f.settle()
		_, err := f.Release(t.Context(), "one", "", "none")
		require.ErrorIs(t, err, ErrThere)
		stop()
		f.settle()
		_, err = f.Release(t.Context(), "one", "", "none")
		require.ErrorIs(t, err, ErrNothing)

		f.store.Delete(app("one", "web"))
		f.store.Delete(app("two", "web"))
		f.settle()
		waiting, err := f.Waiting(t.Context(), "one")
		require.NoError(t, err)
		require.Len(t, waiting, 1)
		require.Equal(t, app("", "web"), waiting[0].Key)
		_, err = f.Release(t.Context(), "one", "another list", "none")
		require.ErrorIs(t, err, ErrChanged)
		_, err = f.Release(t.Context(), "nobody", "", "none")
		require.ErrorIs(t, err, ErrUnknown)

		before := logged.Len()
		done, err := f.Release(t.Context(), "one", engine.HeldDigest(waiting), "scrapped")
		require.NoError(t, err)
		require.Equal(t, waiting, done)
		lines := logged.All()[before:]
		require.Len(t, lines, 1)
		require.Equal(t, map[string]any{"agent": "one", "key": "Application/one/web", "uid": waiting[0].UID, "reason": "scrapped"}, lines[0].ContextMap())
		f.settle()
		_, there := f.store.Get(app("one", "web"))
		require.False(t, there)
		two, there := f.store.Get(app("two", "web"))
		require.True(t, there, "it waits for another agent")
		require.True(t, two.Deleting)
		stays, _ := f.store.Get(app("one", "stays"))
		require.Equal(t, `{"destination":{"name":"one"}}`, stays.Parts[resource.Spec])
		require.False(t, stays.Deleting)
		waiting, err = f.Waiting(t.Context(), "one")
		require.NoError(t, err)
		require.Empty(t, waiting)
	})
}

// A busy store has somebody else do something to an object just before it is written.
type busy struct {
	*memstore.Store
	meddle func(k resource.Key, write int)
	writes map[resource.Key]int
}

func (b busy) Write(ctx context.Context, o resource.Object) (resource.Object, error) {
	b.writes[o.Key]++
	b.meddle(o.Key, b.writes[o.Key])
	return b.Store.Write(ctx, o)
}

// What somebody else changes while it is released is read again and released all the same, in
// a number of tries that has an end; unless by then it is another object, or waits no more.
func TestReleaseOfWhatChanges(t *testing.T) {
	finalizers := resource.Metadata{Finalizers: []string{"resources-finalizer.argocd.argoproj.io"}}.Text()
	for name, c := range map[string]struct {
		meddle   func(s *memstore.Store, k resource.Key, write int)
		writes   int
		released int
		fails    bool
		there    bool
	}{
		"it is changed": {func(s *memstore.Store, k resource.Key, write int) {
			if write < tries {
				s.Edit(k, func(o *resource.Object) { o.Parts[resource.Status] = string(rune('0' + write)) })
			}
		}, tries, 2, false, false},
		"it is changed all the time": {func(s *memstore.Store, k resource.Key, write int) {
			s.Edit(k, func(o *resource.Object) { o.Parts[resource.Status] = string(rune('0' + write)) })
		}, tries, 1, true, true},
		"it is made anew": {func(s *memstore.Store, k resource.Key, write int) {
			s.Edit(k, func(o *resource.Object) { o.Parts[resource.Meta] = "" })
			s.Edit(k, func(o *resource.Object) { o.Parts[resource.Meta] = finalizers })
			s.Delete(k)
		}, 1, 1, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New(memstore.Config{Name: "hub"})
			web, calm := app("one", "web"), app("one", "calm")
			var waiting []engine.Absent
			for _, k := range []resource.Key{web, calm} {
				store.Edit(k, func(o *resource.Object) { o.Parts[resource.Meta] = finalizers })
				o, _ := store.Get(k)
				waiting = append(waiting, engine.Absent{Key: k, UID: o.UID})
				store.Delete(k)
			}
			released, writes := 0, map[resource.Key]int{}
			err := letGo(t.Context(), busy{store, func(k resource.Key, write int) {
				if k == web {
					c.meddle(store, k, write)
				}
			}, writes}, backend.In("one"), waiting, func(resource.Object) { released++ })
			if c.fails {
				require.ErrorIs(t, err, backend.ErrConflict)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, map[resource.Key]int{web: c.writes, calm: 1}, writes)
			require.Equal(t, c.released, released)
			_, there := store.Get(web)
			require.Equal(t, c.there, there)
			_, there = store.Get(calm)
			require.False(t, there)
		})
	}
}
