package principal

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/backend"
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
