package filestore

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/storetest"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestStore runs the project's suite of every store.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.World {
		s, err := New(t.TempDir())
		require.NoError(t, err)
		return storetest.World{
			Store:      s,
			Users:      users{t, s},
			Namespaces: [2]string{"one", "two"},
			Refuse:     func(o *resource.Object) { o.Parts[resource.Spec] = "no JSON" },
		}
	})
}

// TestFolderIsKept opens a folder again.
func TestFolderIsKept(t *testing.T) {
	dir := t.TempDir()
	s, err := New(dir)
	require.NoError(t, err)
	var all []resource.Object
	for _, name := range []string{"a", "..", "a/b", "a%2Fb", "gone"} {
		o := resource.Object{Key: resource.Key{Kind: resource.Application, Namespace: "one", Name: name}}
		o, err := s.Write(t.Context(), o)
		require.NoError(t, err)
		all = append(all, o)
	}
	gone := all[len(all)-1]
	require.NoError(t, s.Remove(t.Context(), gone.Key, gone.Version))
	s, err = New(dir)
	require.NoError(t, err)
	require.Len(t, s.objects, len(all)-1)
	for _, o := range all[:len(all)-1] {
		require.Equal(t, o, s.objects[o.Key].Object)
	}
	require.NoError(t, os.WriteFile(dir+"/broken.json", []byte("{"), 0o600))
	_, err = New(dir)
	require.Error(t, err)
}

// users have their way with a store, whatever the version.
type users struct {
	t *testing.T
	s *Store
}

func (u users) edit(k resource.Key, f func(*object)) {
	_, err := u.s.apply(u.t.Context(), k, func(o *object) error {
		f(o)
		return nil
	})
	require.NoError(u.t, err)
}

func (u users) Edit(k resource.Key, f func(*resource.Object)) {
	u.edit(k, func(o *object) {
		before := o.Object
		o.Key = k
		f(&o.Object)
		o.Ours = backend.Ours(before, o.Object, false)
	})
}

func (u users) Delete(k resource.Key) { u.edit(k, func(o *object) { o.Deleting = true }) }

func (u users) Hold(k resource.Key) { u.edit(k, func(o *object) { o.Held = true }) }

func (u users) Finish(k resource.Key) {
	u.s.mu.Lock()
	_, there := u.s.objects[k]
	u.s.mu.Unlock()
	if !there {
		return
	}
	u.edit(k, func(o *object) {
		if o.Deleting {
			m := resource.ParseMetadata(o.Parts[resource.Meta])
			m.Finalizers = nil
			o.Held, o.Parts[resource.Meta] = false, m.Text()
		}
	})
}

func (u users) Lose(k resource.Key) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	uid := u.s.objects[k].UID
	delete(u.s.objects, k)
	u.s.feed.Gone(backend.Gone{Key: k, UID: uid})
}
