package verify_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReadReturnsWhatIsInScope(t *testing.T) {
	store := memstore.New(memstore.Config{})
	for _, k := range []resource.Key{
		{Kind: resource.Application, Namespace: "ns", Name: "b"},
		{Kind: resource.Application, Namespace: "ns", Name: "a"},
		{Kind: resource.Application, Namespace: "other", Name: "c"},
	} {
		store.Edit(k, func(o *resource.Object) { o.Parts[resource.Spec] = `{}` })
	}
	all, err := verify.Read(t.Context(), store, backend.Scope{})
	require.NoError(t, err)
	require.Len(t, all, 3)
	some, err := verify.Read(t.Context(), store, backend.In("ns"))
	require.NoError(t, err)
	require.Equal(t, all[:2], some)
	require.Equal(t, "a", some[0].Key.Name)
	require.NotEmpty(t, some[0].UID)
}

func TestReadOfAStoreThatChangesWhileItIsListed(t *testing.T) {
	a, b := resource.Object{Key: key, Version: "1"}, resource.Object{Key: key, Version: "2"}
	gone := resource.Object{Key: resource.Key{Name: "gone"}}
	got, err := verify.Read(t.Context(), script{
		{Put: &a}, {Put: &gone}, {Put: &b}, {Gone: &backend.Gone{Key: gone.Key}}, {Synced: &backend.Synced{}}, {Put: &gone},
	}, backend.Scope{})
	require.NoError(t, err)
	require.Equal(t, []resource.Object{b}, got)
}

func TestReadFailsWithItsStore(t *testing.T) {
	_, err := verify.Read(t.Context(), script{}, backend.Scope{})
	require.ErrorIs(t, err, errScript)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	store := memstore.New(memstore.Config{})
	store.Edit(key, func(o *resource.Object) { o.Parts[resource.Spec] = `{}` })
	_, err = verify.Read(ctx, store, backend.Scope{})
	require.ErrorIs(t, err, context.Canceled)
}

var errScript = errors.New("the script has ended")

// A script is a store whose watch shows these events, and fails.
type script []backend.Event

func (s script) Watch(_ context.Context, _ backend.Scope, f func(backend.Event) error) error {
	for _, e := range s {
		if err := f(e); err != nil {
			return err
		}
	}
	return errScript
}

func (script) Write(context.Context, resource.Object) (resource.Object, error) {
	return resource.Object{}, errScript
}

func (script) Remove(context.Context, resource.Key, string) error { return errScript }
