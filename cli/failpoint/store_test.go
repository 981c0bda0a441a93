package failpoint_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/cli/failpoint"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestStoreDiesAtItsPoints shows what a store holds when whoever used it has died at the
// second of two acts of each kind.
func TestStoreDiesAtItsPoints(t *testing.T) {
	for point, want := range map[failpoint.Point]string{
		failpoint.BeforeCreate: "a=1",
		failpoint.AfterCreate:  "a=1 b=1",
		failpoint.BeforeChange: "a=2 b=1",
		failpoint.AfterChange:  "a=2 b=2",
		failpoint.BeforeRemove: "b=2",
		failpoint.AfterRemove:  "",
	} {
		t.Run(string(point), func(t *testing.T) {
			truth := memstore.New(memstore.Config{})
			store := trap(t, point).Store(truth)
			put := func(name, spec string) func() {
				return func() {
					o, _ := truth.Get(key(name))
					o.Key, o.Parts[resource.Spec] = key(name), spec
					_, err := store.Write(t.Context(), o)
					require.NoError(t, err)
				}
			}
			remove := func(name string) func() {
				return func() {
					o, _ := truth.Get(key(name))
					require.NoError(t, store.Remove(t.Context(), o.Key, o.Version))
				}
			}
			done := dies(put("a", "1"), put("b", "1"), put("a", "2"), put("b", "2"), remove("a"), remove("b"))
			require.Less(t, done, 6, "it has died")
			var held []string
			for k, o := range truth.All() {
				held = append(held, fmt.Sprintf("%s=%s", k.Name, o.Parts[resource.Spec]))
			}
			slices.Sort(held)
			require.Equal(t, want, strings.Join(held, " "))
		})
	}
}

// TestWhatFailsIsNotDone shows that the points after an act are not reached by one that fails.
func TestWhatFailsIsNotDone(t *testing.T) {
	truth := memstore.New(memstore.Config{})
	store := trap(t, failpoint.AfterCreate).Store(truth)
	create := func(name string) error {
		_, err := store.Write(t.Context(), resource.Object{Key: key(name)})
		return err
	}
	require.NoError(t, create("a"))
	require.Error(t, create("a"), "there is one")
	require.Equal(t, 0, dies(func() { _ = create("b") }))
	require.Equal(t, []string{"a", "b"}, names(truth.All()))
	require.NoError(t, create("c"), "it kills once")
}

func key(name string) resource.Key { return resource.Key{Kind: resource.Application, Name: name} }

func names(objects map[resource.Key]resource.Object) (out []string) {
	for _, k := range slices.SortedFunc(maps.Keys(objects), resource.Key.Compare) {
		out = append(out, k.Name)
	}
	return out
}
