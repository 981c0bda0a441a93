package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func watchLists(t *testing.T, w World) {
	a, b := w.write(t, w.app("a")), w.write(t, w.app("b"))
	watch := w.watch(t, backend.Scope{})
	revision := watch.synced(t).Revision
	c := w.write(t, w.app("c"))
	events, _ := watch.all()
	require.Len(t, events, 4)
	require.Equal(t, map[resource.Key]resource.Object{a.Key: a, b.Key: b, c.Key: c}, watch.objects())
	require.NotNil(t, events[2].Synced, "after what there was")
	require.Equal(t, &c, events[3].Put)
	for _, e := range events {
		n := 0
		for _, set := range []bool{e.Put != nil, e.Gone != nil, e.Synced != nil} {
			if set {
				n++
			}
		}
		require.Equal(t, 1, n, "exactly one field is set")
	}
	require.GreaterOrEqual(t, w.watch(t, backend.Scope{}).synced(t).Revision, revision, "it never falls")
}

func watchScope(t *testing.T, w World) {
	inside, outside := w.app("a"), w.app("a")
	outside.Key.Namespace = w.Namespaces[1]
	before := w.write(t, outside)
	watch, all := w.watch(t, backend.In(w.Namespaces[0])), w.watch(t, backend.Scope{})
	stored := w.write(t, inside)
	before.Parts[resource.Spec] = otherSpec
	changed := w.write(t, before)
	require.NoError(t, w.Store.Remove(t.Context(), changed.Key, changed.Version))
	w.Users.Finish(changed.Key)
	all.gone(t, changed.Key)

	last := w.app("z")
	w.write(t, last) // after which anything else would have been shown
	events, _ := watch.all()
	require.Len(t, events, 3)
	require.Equal(t, stored, watch.objects()[inside.Key])
	require.Empty(t, of(events, changed.Key))
}

// watchOrder lets users edit some objects as fast as they can.
func watchOrder(t *testing.T, w World) {
	const edits, apps = 40, 3
	watch := w.watch(t, backend.Scope{})
	var g errgroup.Group
	for i := range apps {
		k := w.key(fmt.Sprint("app-", i))
		g.Go(func() error {
			for n := range edits {
				w.Users.Edit(k, func(o *resource.Object) {
					o.Parts[resource.Spec] = strings.Replace(spec, "guestbook.git", fmt.Sprintf("%04d", n), 1)
					o.Parts[resource.Meta] = metadata("n", fmt.Sprintf("%04d", n)).Text()
				})
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	for i := range apps {
		k, last := w.key(fmt.Sprint("app-", i)), metadata("n", fmt.Sprintf("%04d", edits-1)).Text()
		watch.shows(t, k, "the last edit", func(o resource.Object) bool { return o.Parts[resource.Meta] == last })
		var shown []string
		events, _ := watch.all()
		for _, e := range of(events, k) {
			shown = append(shown, e.Put.Parts[resource.Meta])
		}
		require.True(t, slices.IsSorted(shown), "%q", shown)
		require.Equal(t, shown, slices.Compact(slices.Clone(shown)), "nothing is shown twice")
	}
}

func watchDeletion(t *testing.T, w World) {
	watch := w.watch(t, backend.Scope{})
	plain, held := w.write(t, w.app("plain")), w.app("held")
	held.Parts[resource.Meta] = resource.Metadata{Finalizers: []string{finalizer}}.Text()
	held = w.write(t, held)
	w.Users.Delete(plain.Key)
	require.Equal(t, backend.Gone{Key: plain.Key, UID: plain.UID, Seen: true}, watch.gone(t, plain.Key))
	w.Users.Delete(held.Key)
	watch.shows(t, held.Key, "Deleting", func(o resource.Object) bool { return o.Deleting && o.Parts == held.Parts })

	late := w.watch(t, backend.Scope{})
	require.True(t, late.objects()[held.Key].Deleting, "also to a watch that begins now")

	w.Users.Finish(held.Key)
	for _, r := range []*watcher{watch, late} {
		require.Equal(t, backend.Gone{Key: held.Key, UID: held.UID, Seen: true}, r.gone(t, held.Key))
	}
}

func watchSuccessor(t *testing.T, w World) {
	watch := w.watch(t, backend.Scope{})
	first := w.write(t, w.app("a"))
	w.Users.Delete(first.Key)
	w.Users.Edit(first.Key, func(o *resource.Object) { o.Parts[resource.Spec] = otherSpec })
	watch.shows(t, first.Key, "the successor", func(o resource.Object) bool { return o.Parts[resource.Spec] == otherSpec })
	events, _ := watch.all()
	shown := of(events, first.Key)
	require.Len(t, shown, 3)
	require.Equal(t, &backend.Gone{Key: first.Key, UID: first.UID, Seen: true}, shown[1].Gone)
	require.NotEqual(t, first.UID, shown[2].Put.UID)
}

func watchLoss(t *testing.T, w World) {
	watch := w.watch(t, backend.Scope{})
	lost, kept := w.write(t, w.app("lost")), w.write(t, w.app("kept"))
	w.Users.Lose(lost.Key)
	require.Equal(t, backend.Gone{Key: lost.Key, UID: lost.UID}, watch.gone(t, lost.Key), "nobody saw it being deleted")
	kept.Parts[resource.Spec] = otherSpec
	requireStored(t, kept, w.write(t, kept))
}

// watchMetadata is SCENARIO 27 as far as a store goes.
func watchMetadata(t *testing.T, w World) {
	watch := w.watch(t, backend.Scope{})
	k := w.write(t, w.app("a")).Key
	for _, m := range []resource.Metadata{
		metadata("team", "blue"),
		{Labels: map[string]string{"team": "red"}},
		{Labels: map[string]string{"team": "red"}, Annotations: map[string]string{"example.com/note": "1"}},
		{Annotations: map[string]string{"example.com/note": "2"}},
		{},
	} {
		w.Users.Edit(k, func(o *resource.Object) { o.Parts[resource.Meta] = m.Text() })
		watch.shows(t, k, m.Text(), func(o resource.Object) bool {
			return o.Parts[resource.Meta] == m.Text() && o.Parts[resource.Spec] == spec
		})
	}
}

func watchEnds(t *testing.T, w World) {
	w.write(t, w.app("a"))
	failure := errors.New("no more")
	for n := range 2 { // at the first object, at Synced
		err := w.Store.Watch(t.Context(), backend.In(w.Namespaces[0]), func(backend.Event) error {
			if n--; n < 0 {
				return failure
			}
			return nil
		})
		require.ErrorIs(t, err, failure)
	}

	ctx, stop := context.WithCancelCause(t.Context())
	err := w.Store.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
		if e.Synced != nil {
			stop(errOver)
		}
		return nil
	})
	require.ErrorIs(t, err, errOver)
	require.ErrorIs(t, w.Store.Watch(ctx, backend.Scope{}, func(backend.Event) error { return nil }), errOver)

	// One that has ended in the middle of an event is not waited for.
	ended := make(chan error)
	running := make(chan struct{})
	go func() {
		ended <- w.Store.Watch(t.Context(), backend.In(w.Namespaces[0]), func(e backend.Event) error {
			if e.Synced != nil {
				close(running)
			}
			if e.Put != nil && e.Put.Key.Name == "b" {
				return failure
			}
			return nil
		})
	}()
	<-running
	w.write(t, w.app("b"))
	require.ErrorIs(t, <-ended, failure)
	w.write(t, w.app("c"))
}

func watchLeaves(t *testing.T, w World) {
	w.write(t, w.app("a"))
	before := goleak.IgnoreCurrent()
	var g errgroup.Group
	for range 10 {
		g.Go(func() error {
			return w.Store.Watch(t.Context(), backend.In(w.Namespaces[0]), func(e backend.Event) error {
				if e.Synced != nil {
					return errOver
				}
				return nil
			})
		})
	}
	require.ErrorIs(t, g.Wait(), errOver)
	require.NoError(t, goleak.Find(before))
}

func thousandObjects(t *testing.T, w World) {
	const n = 1000
	early := w.watch(t, backend.In(w.Namespaces[0]))
	var g errgroup.Group
	g.SetLimit(32)
	for i := range n {
		g.Go(func() error {
			o, err := w.Store.Write(t.Context(), w.app(fmt.Sprintf("app-%04d", i)))
			if err != nil || early.objectShown(o) {
				return err
			}
			return fmt.Errorf("%s was not shown in time", o.Key)
		})
	}
	require.NoError(t, g.Wait())
	require.Len(t, w.list(t), n)
	require.Equal(t, w.list(t), early.objects())
}

func (r *watcher) objectShown(o resource.Object) bool {
	put := r.last(o.Key).Put
	return put != nil && *put == o
}
