package backend_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/backend/storetest"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// unhidden selects what has no label hide=yes.
func unhidden(s backend.Store) backend.Selection {
	return backend.Selection{Store: s, Name: "hide!=yes", Selects: func(labels map[string]string) bool { return labels["hide"] != "yes" }}
}

// TestSelectionIsAStore runs the suite of every store, whose objects are all selected.
func TestSelectionIsAStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.World {
		s := memstore.New(memstore.Config{Admit: func(o resource.Object) error {
			if strings.Contains(o.Parts[resource.Spec], "bad") {
				return errors.New("it is bad")
			}
			return nil
		}})
		return storetest.World{
			Store: unhidden(s), Users: s, Namespaces: [2]string{"one", "two"},
			Refuse: func(o *resource.Object) { o.Parts[resource.Spec] = `{"bad":true}` },
		}
	})
}

// TestWhatIsNotSelectedIsExcluded: an object is there all the time, with its parts or
// without them, and only its deletion is one.
func TestWhatIsNotSelectedIsExcluded(t *testing.T) {
	s := memstore.New(memstore.Config{})
	events := follow(t, view(unhidden(s), backend.Scope{}), backend.Scope{})
	for _, hide := range []string{"yes", "no", "yes"} {
		s.Edit(inner, func(o *resource.Object) {
			o.Parts[resource.Spec], o.Origin = `"x"`, resource.Origin{UID: "u", By: "hub"}
			o.Parts[resource.Meta] = labels("hide", hide)
		})
		put := (<-events).Put
		require.NotNil(t, put, "one that is not selected is not gone")
		require.Equal(t, hide == "yes", put.Excluded)
		require.Equal(t, hide == "yes", put.Parts == resource.Parts{})
		require.Equal(t, resource.Origin{UID: "u", By: "hub"}, put.Origin)
		require.NotEmpty(t, put.UID)
	}
	listed := follow(t, unhidden(s), backend.Scope{})
	require.Empty(t, listed)
	s.Delete(inner)
	require.True(t, (<-events).Gone.Seen)
	require.True(t, (<-listed).Gone.Seen)
}

// TestASelectionIsNotLeftByAWrite: neither is an object written that is not selected, nor
// one so that it is selected no more.
func TestASelectionIsNotLeftByAWrite(t *testing.T) {
	s := memstore.New(memstore.Config{})
	selection := unhidden(s)
	write := func(o resource.Object, hide string) (resource.Object, error) {
		o.Parts[resource.Meta] = labels("hide", hide)
		return selection.Write(t.Context(), o)
	}
	_, err := write(resource.Object{Key: inner}, "yes")
	require.ErrorIs(t, err, backend.ErrRefused)
	require.ErrorContains(t, err, "hide!=yes")
	_, there := s.Get(inner)
	require.False(t, there)

	o, err := write(resource.Object{Key: inner, Parts: resource.Parts{resource.Spec: `"x"`}}, "no")
	require.NoError(t, err)
	require.False(t, o.Excluded)
	_, err = write(o, "yes")
	require.ErrorIs(t, err, backend.ErrRefused)
	stored, _ := s.Get(inner)
	require.Equal(t, o, stored)

	// What was shown of an Excluded object lacks its labels, and all else.
	s.Edit(inner, func(o *resource.Object) { o.Parts[resource.Meta] = labels("hide", "yes") })
	stored, _ = s.Get(inner)
	shown := stored
	shown.Excluded, shown.Parts = true, resource.Parts{}
	_, err = selection.Write(t.Context(), shown)
	require.ErrorIs(t, err, backend.ErrRefused)
	after, _ := s.Get(inner)
	require.Equal(t, stored, after)
}
