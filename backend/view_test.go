package backend_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/backend/storetest"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tests' view shows namespace x as view-x, and every Application that stands in
// the project "default" in "renamed"; those labelled hide=yes it does not show.
func outOf(o resource.Object) (resource.Object, bool) {
	if resource.ParseMetadata(o.Parts[resource.Meta]).Labels["hide"] == "yes" {
		return resource.Object{}, false
	}
	o.Key.Namespace = "view-" + o.Key.Namespace
	o.Parts[resource.Spec] = strings.Replace(o.Parts[resource.Spec], `"default"`, `"renamed"`, 1)
	return o, true
}

func into(o resource.Object) resource.Object {
	o.Parts[resource.Spec] = strings.Replace(o.Parts[resource.Spec], `"renamed"`, `"default"`, 1)
	return o
}

func innerKey(k resource.Key) resource.Key {
	k.Namespace = strings.TrimPrefix(k.Namespace, "view-")
	return k
}

func view(s backend.Store, scope backend.Scope) *backend.View {
	return backend.NewView(backend.ViewConfig{Store: s, Scope: scope, Out: outOf, In: into, Key: innerKey})
}

// TestViewIsAStore runs the suite of every store through a view.
func TestViewIsAStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.World {
		s := memstore.New(memstore.Config{Admit: func(o resource.Object) error {
			if strings.Contains(o.Parts[resource.Spec], "bad") {
				return errors.New("it is bad")
			}
			return nil
		}})
		// The suite's project is then another one in the store.
		v := backend.NewView(backend.ViewConfig{Store: s, Key: innerKey,
			In: func(o resource.Object) resource.Object {
				o.Parts[resource.Spec] = strings.Replace(o.Parts[resource.Spec], `"default"`, `"inside"`, 1)
				return o
			},
			Out: func(o resource.Object) (resource.Object, bool) {
				o.Key.Namespace = "view-" + o.Key.Namespace
				o.Parts[resource.Spec] = strings.Replace(o.Parts[resource.Spec], `"inside"`, `"default"`, 1)
				return o, true
			},
		})
		return storetest.World{
			Store:      v,
			Users:      users{s},
			Namespaces: [2]string{"view-one", "view-two"},
			Refuse:     func(o *resource.Object) { o.Parts[resource.Spec] = `{"bad":true}` },
		}
	})
}

// users work on the store behind the view.
type users struct{ *memstore.Store }

func (u users) Edit(k resource.Key, f func(*resource.Object)) { u.Store.Edit(innerKey(k), f) }
func (u users) Delete(k resource.Key)                         { u.Store.Delete(innerKey(k)) }
func (u users) Hold(k resource.Key)                           { u.Store.Hold(innerKey(k)) }
func (u users) Finish(k resource.Key)                         { u.Store.Finish(innerKey(k)) }
func (u users) Lose(k resource.Key)                           { u.Store.Lose(innerKey(k)) }

// follow starts a watch whose events a test takes one by one.
func follow(t *testing.T, s backend.Store, scope backend.Scope) <-chan backend.Event {
	events, ended := make(chan backend.Event, 100), make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		_ = s.Watch(ctx, scope, func(e backend.Event) error { events <- e; return nil })
	}()
	t.Cleanup(func() { stop(); <-ended })
	for e := range events {
		if e.Synced != nil {
			return events
		}
	}
	return nil
}

func labels(kv ...string) string {
	m := resource.Metadata{Labels: map[string]string{}}
	for i := 0; i < len(kv); i += 2 {
		m.Labels[kv[i]] = kv[i+1]
	}
	return m.Text()
}

var (
	inner = resource.Key{Kind: resource.Application, Namespace: "one", Name: "a"}
	outer = resource.Key{Kind: resource.Application, Namespace: "view-one", Name: "a"}
)

func TestViewShowsLeavingAsGoneButNotSeen(t *testing.T) {
	s := memstore.New(memstore.Config{})
	events := follow(t, view(s, backend.Scope{}), backend.Scope{})
	hide := func(value string) {
		s.Edit(inner, func(o *resource.Object) { o.Parts[resource.Meta] = labels("hide", value) })
	}
	hide("yes") // it is not in the view, and never was
	hide("no")
	put := (<-events).Put
	require.Equal(t, outer, put.Key)
	hide("yes")
	require.Equal(t, &backend.Gone{Key: outer, UID: put.UID}, (<-events).Gone)
	s.Delete(inner) // which is not the view's business
	hide("no")
	again := (<-events).Put
	require.NotEqual(t, put.UID, again.UID)
	s.Delete(inner)
	require.Equal(t, &backend.Gone{Key: outer, UID: again.UID, Seen: true}, (<-events).Gone)
	require.Empty(t, events)
}

func TestViewKeepsToItsScope(t *testing.T) {
	s := memstore.New(memstore.Config{})
	there := resource.Key{Kind: resource.Application, Namespace: "two", Name: "a"}
	narrow := follow(t, view(s, backend.In("one")), backend.Scope{})
	watched := follow(t, view(s, backend.Scope{}), backend.In("view-one"))
	none := follow(t, view(s, backend.In("one")), backend.In("view-two"))
	for _, k := range []resource.Key{there, inner} {
		s.Edit(k, func(o *resource.Object) { o.Parts[resource.Spec] = "1" })
	}
	require.Equal(t, outer, (<-narrow).Put.Key)
	require.Equal(t, outer, (<-watched).Put.Key)
	o, _ := s.Get(inner)
	o.Key, o.Parts[resource.Spec] = outer, "2"
	_, err := view(s, backend.Scope{}).Write(t.Context(), o) // after which all have shown it
	require.NoError(t, err)
	require.Len(t, narrow, 1)
	require.Len(t, watched, 1)
	require.Empty(t, none)
}

// TestViewShowsAnObjectThatChangesItsName moves an object whose name in the view is told
// by one of its labels.
func TestViewShowsAnObjectThatChangesItsName(t *testing.T) {
	s := memstore.New(memstore.Config{})
	v := backend.NewView(backend.ViewConfig{Store: s, In: into, Key: innerKey, Out: func(o resource.Object) (resource.Object, bool) {
		o.Key.Name = resource.ParseMetadata(o.Parts[resource.Meta]).Labels["name"]
		return o, true
	}})
	events := follow(t, v, backend.Scope{})
	name := func(n string) {
		s.Edit(inner, func(o *resource.Object) { o.Parts[resource.Meta] = labels("name", n) })
	}
	name("x")
	x := (<-events).Put
	require.Equal(t, "x", x.Key.Name)
	name("y")
	require.Equal(t, &backend.Gone{Key: x.Key, UID: x.UID}, (<-events).Gone)
	require.Equal(t, "y", (<-events).Put.Key.Name)
}

// TestViewWritesWhatChangedOnly writes the status of an object whose project the view
// renames: what the object has in the store must stay what it is.
func TestViewWritesWhatChangedOnly(t *testing.T) {
	s := memstore.New(memstore.Config{})
	const text = `{"project":"renamed"}` // which In would make "default"
	s.Edit(inner, func(o *resource.Object) { o.Parts[resource.Spec] = text })
	v := view(s, backend.Scope{})

	events := follow(t, v, backend.Scope{})
	o, _ := s.Get(inner)
	o.Key, o.Parts[resource.Status] = outer, "1"
	o, err := v.Write(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, o, *(<-events).Put)
	stored, _ := s.Get(inner)
	require.Equal(t, text, stored.Parts[resource.Spec])
	require.Equal(t, "1", stored.Parts[resource.Status])

	s.Edit(inner, func(o *resource.Object) { o.Parts[resource.Status] = "2" })
	<-events
	_, err = v.Write(t.Context(), o)
	require.ErrorIs(t, err, backend.ErrConflict)

	// What the caller changes goes through In.
	o, _ = s.Get(inner)
	o.Key, o.Parts[resource.Spec] = outer, `{"project":"renamed","x":1}`
	_, err = v.Write(t.Context(), o)
	require.NoError(t, err)
	stored, _ = s.Get(inner)
	require.Equal(t, `{"project":"default","x":1}`, stored.Parts[resource.Spec])
}

// TestViewOfWhatLeavesByAWrite writes an object out of the view.
func TestViewOfWhatLeavesByAWrite(t *testing.T) {
	s := memstore.New(memstore.Config{})
	v := view(s, backend.Scope{})
	events := follow(t, v, backend.Scope{})
	o, err := v.Write(t.Context(), resource.Object{Key: outer})
	require.NoError(t, err)
	<-events
	o.Parts[resource.Meta] = labels("hide", "yes")
	hidden, err := v.Write(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, outer, hidden.Key)
	require.Equal(t, o.Parts, hidden.Parts)
	require.Equal(t, &backend.Gone{Key: outer, UID: o.UID}, (<-events).Gone)
}

func TestExcludedObjectsAreShownBare(t *testing.T) {
	s := memstore.New(memstore.Config{})
	events := follow(t, view(s, backend.Scope{}), backend.Scope{})
	for _, value := range []string{"true", "", "false"} {
		excluded := value == "true"
		s.Edit(inner, func(o *resource.Object) {
			o.Parts[resource.Spec], o.Origin = `"x"`, resource.Origin{UID: "u", By: "hub"}
			o.Parts[resource.Meta] = labels(backend.IgnoreLabel, value)
		})
		put := (<-events).Put
		require.Equal(t, excluded, put.Excluded)
		require.Equal(t, excluded, put.Parts == resource.Parts{})
		require.Equal(t, resource.Origin{UID: "u", By: "hub"}, put.Origin)
		require.NotEmpty(t, put.UID)
	}

	// A write of what was shown takes nothing away.
	s.Edit(inner, func(o *resource.Object) { o.Parts[resource.Meta] = labels(backend.IgnoreLabel, "true") })
	put := (<-events).Put
	put.Origin.UID = "v"
	v := view(s, backend.Scope{})
	follow(t, v, backend.Scope{})
	_, err := v.Write(t.Context(), *put)
	require.NoError(t, err)
	stored, _ := s.Get(inner)
	require.Equal(t, `"x"`, stored.Parts[resource.Spec])
	require.Equal(t, "v", stored.Origin.UID)
}

// TestViewWritesNothingThatItHasNotShown writes a version that the view's watch, which is
// late, does not know: the view cannot tell what the writer wants to change.
func TestViewWritesNothingThatItHasNotShown(t *testing.T) {
	s := memstore.New(memstore.Config{})
	v := view(s, backend.Scope{})
	entered, release := make(chan struct{}, 10), make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = v.Watch(ctx, backend.Scope{}, func(backend.Event) error {
			entered <- struct{}{}
			<-release
			return nil
		})
	}()
	defer func() { close(release); stop(); <-ended }()
	<-entered
	release <- struct{}{}
	s.Edit(inner, func(o *resource.Object) { o.Parts[resource.Spec] = `"renamed"` })
	<-entered
	s.Edit(inner, func(o *resource.Object) { o.Parts[resource.Status] = `"new"` })
	o, _ := s.Get(inner)
	o.Key, o.Parts[resource.Status] = outer, `"newer"`
	_, err := v.Write(t.Context(), o)
	require.ErrorIs(t, err, backend.ErrConflict)
	stored, _ := s.Get(inner)
	require.Equal(t, `"renamed"`, stored.Parts[resource.Spec])
}
