package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// requireGoing demands that the watch has shown by now that o is being deleted, or gone.
func requireGoing(t *testing.T, watch *watcher, o resource.Object) {
	t.Helper()
	switch last := watch.last(o.Key); {
	case last.Put != nil:
		require.True(t, last.Put.Deleting)
		require.Equal(t, o.UID, last.Put.UID)
	case last.Gone != nil:
		require.Equal(t, backend.Gone{Key: o.Key, UID: o.UID, Seen: true}, *last.Gone)
	default:
		require.Fail(t, "nothing was shown")
	}
}

func removeDeletes(t *testing.T, w World) {
	watches := []*watcher{w.watch(t, backend.Scope{}), w.watch(t, backend.In(w.Namespaces[0]))}
	o := w.write(t, w.app("a"))
	require.NoError(t, w.Store.Remove(t.Context(), o.Key, o.Version))
	for _, watch := range watches {
		requireGoing(t, watch, o)
	}
	w.Users.Finish(o.Key) // by whom the store makes it wait, if at all
	for _, watch := range watches {
		require.Equal(t, backend.Gone{Key: o.Key, UID: o.UID, Seen: true}, watch.gone(t, o.Key))
	}
	require.Empty(t, w.list(t))
}

func removeWaitsForFinalizers(t *testing.T, w World) {
	watch := w.watch(t, backend.Scope{})
	for _, finish := range []func(o resource.Object){
		func(o resource.Object) { w.Users.Finish(o.Key) },
		func(o resource.Object) { // as the side that has no controller does it
			o.Parts[resource.Meta] = metadata("a", "1").Text()
			_, err := w.Store.Write(t.Context(), o)
			require.NoError(t, err)
			requireGoing(t, watch, o)
			w.Users.Finish(o.Key)
		},
	} {
		o := w.app("a")
		m := metadata("a", "1")
		m.Finalizers = []string{finalizer}
		o.Parts[resource.Meta] = m.Text()
		o = w.write(t, o)
		require.NoError(t, w.Store.Remove(t.Context(), o.Key, o.Version))
		put := watch.last(o.Key).Put
		require.NotNil(t, put)
		require.True(t, put.Deleting)
		require.Equal(t, o.UID, put.UID)
		require.Equal(t, o.Parts, put.Parts)

		// It can be written until it is gone.
		put.Parts[resource.Status] = status
		going := w.write(t, *put)
		require.True(t, going.Deleting)
		require.Equal(t, put.Parts, going.Parts)

		// To delete it again is not wrong, and changes nothing.
		require.NoError(t, w.Store.Remove(t.Context(), o.Key, going.Version))
		w.requireHeld(t, going)

		finish(going)
		require.Equal(t, backend.Gone{Key: o.Key, UID: o.UID, Seen: true}, watch.gone(t, o.Key))
	}
}

func removeIsConditional(t *testing.T, w World) {
	watch := w.watch(t, backend.Scope{})
	remove := func(k resource.Key, version string) {
		t.Helper()
		require.ErrorIs(t, w.Store.Remove(t.Context(), k, version), backend.ErrConflict)
	}
	first := w.write(t, w.app("a"))
	remove(w.key("b"), first.Version)
	w.Users.Edit(first.Key, func(o *resource.Object) { o.Parts[resource.Spec] = otherSpec })
	remove(first.Key, first.Version)
	watch.shows(t, first.Key, "why", func(o resource.Object) bool { return o.Parts[resource.Spec] == otherSpec })
	second := watch.objects()[first.Key]
	require.False(t, second.Deleting)

	w.Users.Delete(first.Key)
	remove(first.Key, second.Version)
	watch.gone(t, first.Key)
	remove(first.Key, second.Version)
}

func removeSparesOthers(t *testing.T, w World) {
	watch := w.watch(t, backend.Scope{})
	o := w.app("a")
	o.Parts[resource.Meta] = resource.Metadata{Finalizers: []string{finalizer}}.Text()
	o = w.write(t, o)
	w.Users.Hold(o.Key)
	watch.shows(t, o.Key, "the finalizer", func(now resource.Object) bool { return now.Version != o.Version })
	o = watch.objects()[o.Key]
	require.NoError(t, w.Store.Remove(t.Context(), o.Key, o.Version))
	o = watch.objects()[o.Key]
	require.True(t, o.Deleting)

	o.Parts[resource.Meta] = ""
	o = w.write(t, o)
	require.True(t, o.Deleting)
	w.requireHeld(t, o) // by the finalizer that is not Argo CD's
	w.Users.Finish(o.Key)
	require.Equal(t, backend.Gone{Key: o.Key, UID: o.UID, Seen: true}, watch.gone(t, o.Key))
}
