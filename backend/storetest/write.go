package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// copyOf is the mark of a copy.
var copyOf = resource.Origin{UID: "11111111-2222-3333-4444-555555555555", By: "hub-one"}

func writeCreates(t *testing.T, w World) {
	watch := w.watch(t, backend.Scope{})
	want := w.app("a")
	want.Origin = copyOf
	want.Parts[resource.Meta] = resource.Metadata{
		Labels:      map[string]string{"team": "blue"},
		Annotations: map[string]string{"example.com/note": "<&>"},
		Finalizers:  []string{finalizer},
	}.Text()
	want.Parts[resource.Status], want.Parts[resource.OpState] = status, opState
	stored := w.write(t, want)
	requireStored(t, want, stored)
	require.Equal(t, &stored, watch.last(want.Key).Put, "the watch has shown it")
	w.requireHeld(t, stored)

	again, err := w.Store.Write(t.Context(), want)
	require.ErrorIs(t, err, backend.ErrConflict)
	require.Zero(t, again)
	w.requireHeld(t, stored)
}

func writeChanges(t *testing.T, w World) {
	watch := w.watch(t, backend.Scope{})
	first := w.write(t, w.app("a"))
	want := first
	want.Parts[resource.Spec], want.Parts[resource.Status], want.Origin = otherSpec, status, copyOf
	second := w.write(t, want)
	requireStored(t, want, second)
	require.Equal(t, first.UID, second.UID)
	require.Equal(t, &second, watch.last(want.Key).Put, "the watch has shown it")

	want = second
	want.Origin = resource.Origin{UID: "another", By: "hub-two"}
	third := w.write(t, want)
	requireStored(t, want, third)
	require.Equal(t, &third, watch.last(want.Key).Put)
	w.requireHeld(t, third)
}

// writeChangesEachPart sets, changes and takes away one part after the other, with all
// the others there and with none.
func writeChangesEachPart(t *testing.T, w World) {
	one := resource.Parts{
		resource.Spec: spec, resource.Meta: metadata("a", "1", "b", "1").Text(), resource.Status: status, resource.OpState: opState,
		resource.Operation: operation, resource.OpID: "id-1", resource.Fault: "it failed", resource.Pending: "it waits", resource.Held: "it is held",
		resource.Refresh: "hard-1", resource.RefreshMark: "hard",
	}
	two := resource.Parts{
		resource.Spec: otherSpec, resource.Meta: metadata("b", "2", "c", "2").Text(), resource.Status: otherStatus, resource.OpState: otherOpState,
		resource.Operation: otherOperation, resource.OpID: "id-2", resource.Fault: "it failed otherwise", resource.Pending: "it still waits", resource.Held: "it is still held",
		resource.Refresh: "normal-2/2026-01-02T03:04:05Z", resource.RefreshMark: "normal",
	}
	for _, rest := range []resource.Parts{{resource.Spec: spec}, one} {
		o := w.app("alone")
		if rest == one {
			o = w.app("among")
		}
		o.Parts = rest
		o = w.write(t, o)
		for p := range resource.NumParts {
			steps := []string{one[p], two[p], "", one[p]}
			if p == resource.Spec { // there is no object without
				steps = []string{two[p], one[p]}
			}
			for _, text := range append(steps, rest[p]) {
				if o.Parts[p] == text {
					continue
				}
				want := o
				want.Parts[p] = text
				o = w.write(t, want)
				requireStored(t, want, o)
			}
		}
	}
}

func writeOfNoChange(t *testing.T, w World) {
	o := w.app("a")
	o.Origin = copyOf
	o.Parts[resource.Meta], o.Parts[resource.Fault] = metadata("a", "1").Text(), "it failed"
	o.Parts[resource.Status] = otherStatus
	stored := w.write(t, o)
	again, err := w.Store.Write(t.Context(), stored)
	require.NoError(t, err)
	require.Equal(t, stored, again, "no new version")
	w.requireHeld(t, stored)
}

// writeKeepsOthers shows that metadata goes by key, and that parts that do not differ
// stay as they are to the byte.
func writeKeepsOthers(t *testing.T, w World) {
	k := w.key("a")
	watch := w.watch(t, backend.Scope{})
	w.Users.Edit(k, func(o *resource.Object) {
		o.Parts[resource.Spec], o.Parts[resource.Status] = otherSpec, otherStatus
		o.Parts[resource.Meta] = metadata("theirs", "1", "ours", "1").Text()
	})
	watch.shows(t, k, "the object", func(o resource.Object) bool { return o.Version != "" })
	before := watch.objects()[k]
	w.Users.Hold(k)
	watch.shows(t, k, "the finalizer", func(o resource.Object) bool { return o.Version != before.Version })
	want := watch.objects()[k]
	require.Equal(t, before.Parts, want.Parts, "which is in no part")
	want.Parts[resource.Meta] = metadata("theirs", "1", "new", "1").Text()
	stored := w.write(t, want)
	requireStored(t, want, stored)
	w.Users.Delete(k)
	watch.shows(t, k, "Deleting", func(o resource.Object) bool { return o.Deleting })
	w.requireHeld(t, watch.objects()[k]) // by the finalizer that the write has not touched
	w.Users.Finish(k)
}

func writeReportsOurs(t *testing.T, w World) {
	plain := w.app("plain")
	plain.Parts[resource.Meta] = metadata("a", "1").Text()
	require.Empty(t, w.write(t, plain).Ours, "it is nobody's copy")

	o := w.app("a")
	o.Origin = copyOf
	m := metadata("a", "1")
	m.Annotations = map[string]string{"example.com/note": "x"}
	o.Parts[resource.Meta] = m.Text()
	stored := w.write(t, o)
	require.Equal(t, m.Keys().Text(), stored.Ours)

	watch := w.watch(t, backend.Scope{})
	w.Users.Edit(o.Key, func(o *resource.Object) {
		m.Labels["theirs"] = "1"
		o.Parts[resource.Meta] = m.Text()
	})
	watch.shows(t, o.Key, "the edit", func(o resource.Object) bool { return o.Parts[resource.Meta] == m.Text() })
	edited := watch.objects()[o.Key]
	require.Equal(t, stored.Ours, edited.Ours, "what others write is not ours")

	delete(m.Labels, "a")
	m.Labels["b"] = "1"
	edited.Parts[resource.Meta] = m.Text()
	stored = w.write(t, edited)
	require.Equal(t, resource.Metadata{Labels: map[string]string{"b": ""}, Annotations: map[string]string{"example.com/note": ""}}.Text(), stored.Ours)
	require.Equal(t, &stored, watch.last(o.Key).Put)
}

func writeIsConditional(t *testing.T, w World) {
	watch := w.watch(t, backend.Scope{})
	conflicts := func(o resource.Object) {
		t.Helper()
		o.Parts[resource.Spec] = otherSpec
		got, err := w.Store.Write(t.Context(), o)
		require.ErrorIs(t, err, backend.ErrConflict)
		require.Zero(t, got)
	}
	first := w.write(t, w.app("a"))
	absent := first
	absent.Key = w.key("b")
	conflicts(absent)

	want := first
	want.Parts[resource.Status] = status
	second := w.write(t, want)
	conflicts(first)

	w.Users.Edit(first.Key, func(o *resource.Object) { o.Parts[resource.Status] = otherStatus })
	conflicts(second)
	watch.shows(t, first.Key, "why", func(o resource.Object) bool { return o.Parts[resource.Status] == otherStatus })
	third := watch.objects()[first.Key]
	w.requireHeld(t, third)

	w.Users.Delete(first.Key)
	conflicts(third)
	watch.gone(t, first.Key)
	require.Empty(t, w.list(t))
}

func writeIsRefused(t *testing.T, w World) {
	o := w.app("a")
	w.Refuse(&o)
	_, err := w.Store.Write(t.Context(), o)
	require.ErrorIs(t, err, backend.ErrRefused)
	require.NotErrorIs(t, err, backend.ErrConflict)
	require.Empty(t, w.list(t))

	stored := w.write(t, w.app("a"))
	bad := stored
	w.Refuse(&bad)
	_, err = w.Store.Write(t.Context(), bad)
	require.ErrorIs(t, err, backend.ErrRefused)
	w.requireHeld(t, stored)
}

func writeByMany(t *testing.T, w World) {
	stored := w.write(t, w.app("a"))
	for _, base := range []resource.Object{stored, w.app("b")} {
		var rivals []resource.Object
		for _, name := range []string{"0", "1", "2", "3", "4", "5", "6", "7"} {
			o := base
			o.Parts[resource.Meta] = metadata("writer", name).Text()
			rivals = append(rivals, o)
		}
		won := 0
		errs := w.writes(t.Context(), rivals...)
		for range rivals {
			if err := <-errs; err == nil {
				won++
			} else {
				require.ErrorIs(t, err, backend.ErrConflict)
			}
		}
		require.Equal(t, 1, won)
	}
}

// writeWaits shows that a Write returns only after every watch in scope, slow ones
// included, has shown it and its function has returned; and that a slow watch holds up
// no other.
func writeWaits(t *testing.T, w World) {
	entered, release := make(chan struct{}), make(chan struct{})
	slow := w.watch(t, backend.In(w.Namespaces[0]), func(e backend.Event) {
		if e.Put != nil {
			entered <- struct{}{}
			<-release
		}
	})
	watches := []*watcher{slow, w.watch(t, backend.Scope{}), w.watch(t, backend.In(w.Namespaces[0]))}

	wrote := w.writes(t.Context(), w.app("a"))
	<-entered
	apart := resource.Key{Kind: resource.Application, Namespace: w.Namespaces[1], Name: "apart"}
	w.Users.Edit(apart, func(o *resource.Object) { o.Parts[resource.Spec] = spec })
	watches[1].shows(t, apart, "the edit", func(o resource.Object) bool { return o.Version != "" })
	watches[2].shows(t, w.key("a"), "the write", func(o resource.Object) bool { return o.Version != "" })
	select {
	case err := <-wrote:
		require.FailNow(t, "the write has not waited", "%v", err)
	default:
	}
	close(release)
	require.NoError(t, <-wrote)
	for _, r := range watches {
		require.NotNil(t, r.last(w.key("a")).Put)
	}
}

func writeIsCancelled(t *testing.T, w World) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Store.Write(over, w.app("a"))
	require.ErrorIs(t, err, context.Canceled)
	require.Error(t, w.Store.Remove(over, w.key("a"), "1"))
	require.Empty(t, w.list(t))

	// One that waits for a watch is given up with its context.
	entered, release := make(chan struct{}), make(chan struct{})
	w.watch(t, backend.Scope{}, func(e backend.Event) {
		if e.Put != nil {
			close(entered)
			<-release
		}
	})
	defer close(release)
	ctx, stop := context.WithCancelCause(t.Context())
	wrote := w.writes(ctx, w.app("b"))
	<-entered
	cause := errors.New("enough")
	stop(cause)
	err = <-wrote
	require.ErrorIs(t, err, cause)
	require.NotErrorIs(t, err, backend.ErrConflict)
	require.NotErrorIs(t, err, backend.ErrRefused)
}
