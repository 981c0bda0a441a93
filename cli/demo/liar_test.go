package demo

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// listen returns what a watch of a store has shown last of each key.
func listen(t *testing.T, s backend.Store) (shown func() map[resource.Key]string) {
	seen := make(chan map[resource.Key]string, 1)
	seen <- map[resource.Key]string{}
	ctx, stop := context.WithCancel(t.Context())
	listed, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
			all := <-seen
			defer func() { seen <- all }()
			switch {
			case e.Put != nil:
				all[e.Put.Key] = e.Put.Parts[resource.Spec]
			case e.Gone != nil:
				delete(all, e.Gone.Key)
			default:
				close(listed)
			}
			return nil
		})
	}()
	<-listed
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return func() map[resource.Key]string {
		all := <-seen
		defer func() { seen <- all }()
		return all
	}
}

func spec(k resource.Key, version, text string) resource.Object {
	o := resource.Object{Key: k, Version: version}
	o.Parts[resource.Spec] = text
	return o
}

func TestLies(t *testing.T) {
	const good, bad = `{"source":{"path":"a"}}`, `{"source":{"path":"not-a"}}`
	k := onSpoke("web")
	for lie, want := range map[Lie]struct{ written, removed string }{
		None:     {good, ""},
		Drop:     {"", ""},
		Corrupt:  {bad, ""},
		Undelete: {good, good},
	} {
		t.Run(string(lie), func(t *testing.T) {
			truth := memstore.New(memstore.Config{})
			l := newLiar(truth, lie)
			shown := listen(t, l)
			there := func() string {
				o, _ := truth.Get(k)
				return o.Parts[resource.Spec]
			}
			l.arm()
			stored, err := l.Write(t.Context(), spec(k, "", good))
			require.NoError(t, err)
			require.Equal(t, good, stored.Parts[resource.Spec])
			require.Equal(t, map[resource.Key]string{k: good}, shown(), "whatever is there, this is shown")
			require.Equal(t, want.written, there())

			stored, err = l.Write(t.Context(), spec(k, stored.Version, good))
			require.NoError(t, err)
			_, err = l.Write(t.Context(), spec(k, "0", good))
			require.ErrorIs(t, err, backend.ErrConflict)
			if lie == None || lie == Undelete {
				require.NoError(t, l.Remove(t.Context(), k, stored.Version))
				require.Empty(t, shown())
				require.Equal(t, want.removed, there())
			}
		})
	}
}

func TestNoLieBeforeItIsArmed(t *testing.T) {
	truth := memstore.New(memstore.Config{})
	l := newLiar(truth, Drop)
	_, err := l.Write(t.Context(), spec(onSpoke("web"), "", "{}"))
	require.NoError(t, err)
	require.Len(t, truth.All(), 1)
}
