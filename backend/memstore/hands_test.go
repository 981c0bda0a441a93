package memstore_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

var (
	keyA = resource.Key{Kind: resource.Application, Namespace: "one", Name: "a"}
	keyB = resource.Key{Kind: resource.Application, Namespace: "one", Name: "b"}
)

func setSpec(text string) func(*resource.Object) {
	return func(o *resource.Object) { o.Parts[resource.Spec] = text }
}

// requireAt demands that every version is a number up to the revision.
func requireAt(t *testing.T, s *memstore.Store, revision uint64) {
	t.Helper()
	for _, o := range s.All() {
		v, err := strconv.ParseUint(o.Version, 10, 64)
		require.NoError(t, err)
		require.LessOrEqual(t, v, revision)
	}
	stop := context.Canceled
	require.ErrorIs(t, s.Watch(t.Context(), backend.Scope{}, func(e backend.Event) error {
		if e.Synced == nil {
			return nil
		}
		require.Equal(t, revision, e.Synced.Revision)
		return stop
	}), stop)
}

func TestEditCountsAsNobodysWrite(t *testing.T) {
	s := memstore.New(memstore.Config{Name: "hub"})
	s.Edit(keyA, setSpec("1"))
	a, ok := s.Get(keyA)
	require.True(t, ok)
	require.Equal(t, "hub-1", a.UID)
	require.Equal(t, "1", a.Version)

	s.Edit(keyA, setSpec("1"))
	requireAt(t, s, 1) // nothing changed
	s.Edit(keyB, func(*resource.Object) {})
	require.Len(t, s.All(), 1, "nothing was made of nothing")

	s.Edit(keyA, func(o *resource.Object) {
		o.UID, o.Version, o.Deleting = "x", "77", true // which are not a user's to give
		o.Parts[resource.Meta] = `{"labels": {"theirs": "1"}}`
	})
	b, _ := s.Get(keyA)
	require.Equal(t, "hub-1", b.UID)
	require.Equal(t, "2", b.Version)
	require.False(t, b.Deleting)
	require.Equal(t, `{"labels":{"theirs":"1"}}`, b.Parts[resource.Meta], "in canonical form")
}

// TestOursIsWhatWriteHasSet walks one copy through everything that changes Ours.
func TestOursIsWhatWriteHasSet(t *testing.T) {
	s := memstore.New(memstore.Config{})
	labels := func(kv map[string]string) string { return resource.Metadata{Labels: kv}.Text() }
	s.Edit(keyA, func(o *resource.Object) { o.Parts[resource.Meta] = labels(map[string]string{"theirs": "1"}) })
	write := func(kv map[string]string, origin resource.Origin) string {
		o, _ := s.Get(keyA)
		o.Parts[resource.Meta], o.Origin = labels(kv), origin
		o, err := s.Write(t.Context(), o)
		require.NoError(t, err)
		return o.Ours
	}
	mark := resource.Origin{UID: "u", By: "hub"}
	require.Equal(t, labels(map[string]string{"ours": ""}), write(map[string]string{"theirs": "1", "ours": "1"}, mark))
	require.Equal(t, labels(map[string]string{"ours": "", "theirs": ""}), write(map[string]string{"theirs": "2", "ours": "1"}, mark), "changed, so taken over")
	s.Edit(keyA, func(o *resource.Object) {
		o.Parts[resource.Meta] = labels(map[string]string{"theirs": "2", "more": "1"})
	})
	o, _ := s.Get(keyA)
	require.Equal(t, labels(map[string]string{"theirs": ""}), o.Ours, "what is gone is nobody's")
	require.Empty(t, write(map[string]string{"more": "1"}, resource.Origin{}), "it is no copy any more")
}

func TestLoadPutsObjectsAsTheyAre(t *testing.T) {
	s := memstore.New(memstore.Config{})
	s.Edit(keyA, setSpec("old"))
	before, _ := s.Get(keyA)
	events := record(t, s)
	o := resource.Object{Key: keyA, Version: "99", Ours: `{"labels":{"x":""}}`, Origin: resource.Origin{UID: "u"}}
	b := resource.Object{Key: keyB, UID: "kept", Deleting: true, Parts: resource.Parts{resource.Meta: `{"finalizers":["f"]}`}}
	s.Load(o, b)
	got, _ := s.Get(keyA)
	require.NotEmpty(t, got.UID)
	require.NotEqual(t, before.UID, got.UID, "restored by manifests")
	require.Equal(t, "2", got.Version)
	o.UID, o.Version = got.UID, got.Version
	require.Equal(t, o, got)
	b.Version = "3"
	require.Equal(t, b, s.All()[keyB])
	require.Equal(t, []backend.Event{{Gone: &backend.Gone{Key: keyA, UID: before.UID}}, {Put: &o}, {Put: &b}}, events())
}

func TestRestoreGoesBackInTime(t *testing.T) {
	s := memstore.New(memstore.Config{})
	s.Edit(keyA, setSpec("1"))
	then := s.Snapshot()
	a := s.All()[keyA]
	s.Edit(keyA, setSpec("2"))
	s.Edit(keyB, setSpec("1"))
	b := s.All()[keyB]
	requireAt(t, s, 3)
	ended := make(chan error)
	synced := make(chan struct{})
	go func() {
		ended <- s.Watch(t.Context(), backend.Scope{}, func(e backend.Event) error {
			if e.Synced != nil {
				close(synced)
			}
			return nil
		})
	}()
	<-synced
	s.Restore(then)
	require.ErrorIs(t, <-ended, backend.ErrRewound)
	requireAt(t, s, 1)
	require.Equal(t, map[resource.Key]resource.Object{keyA: a}, s.All())

	s.Edit(keyB, setSpec("1"))
	again := s.All()[keyB]
	require.Equal(t, "2", again.Version, "versions are given again")
	require.NotEqual(t, b.UID, again.UID, "UIDs are not")
}

func TestFinalizersHold(t *testing.T) {
	s := memstore.New(memstore.Config{})
	s.Hold(keyA) // which is not there
	s.Finish(keyA)
	s.Delete(keyA)
	s.Lose(keyA)
	require.Empty(t, s.All())

	s.Edit(keyA, setSpec("1"))
	s.Hold(keyA)
	s.Finish(keyA) // which is not being deleted
	s.Delete(keyA)
	require.True(t, s.All()[keyA].Deleting)
	requireAt(t, s, 3)
	s.Delete(keyA)
	requireAt(t, s, 3)
	o := s.All()[keyA]
	o.Parts[resource.Meta] = `{"finalizers":["f"]}`
	_, err := s.Write(t.Context(), o)
	require.ErrorIs(t, err, backend.ErrRefused, "as the API server does")
	s.Finish(keyA)
	require.Empty(t, s.All())
}

// record starts a watch and returns what returns the events after Synced: once it is
// called, all that has happened before is in them.
func record(t *testing.T, s *memstore.Store) func() []backend.Event {
	var out []backend.Event
	synced := make(chan struct{})
	marked := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	mark := func(n int) resource.Key { return resource.Key{Kind: "Mark", Name: strconv.Itoa(n)} }
	go func() {
		defer close(ended)
		listed := false
		_ = s.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
			switch {
			case e.Synced != nil:
				listed = true
				close(synced)
			case e.Put != nil && e.Put.Key.Kind == "Mark":
				marked <- struct{}{}
			case e.Gone != nil && e.Gone.Key.Kind == "Mark":
			case listed:
				out = append(out, e)
			}
			return nil
		})
	}()
	t.Cleanup(func() { stop(); <-ended })
	<-synced
	marks := 0
	return func() []backend.Event {
		marks++ // another one each time, so that it is last in the queue
		s.Load(resource.Object{Key: mark(marks), UID: "mark"})
		<-marked
		return out
	}
}

// TestInABubble shows that the store works in virtual time, where a watch that waits
// does not keep the clock from moving on.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Config{})
		shown := 0
		go func() {
			_ = s.Watch(t.Context(), backend.Scope{}, func(e backend.Event) error {
				time.Sleep(time.Hour)
				shown++
				return nil
			})
		}()
		synctest.Wait()
		start := time.Now()
		_, err := s.Write(t.Context(), resource.Object{Key: keyA})
		require.NoError(t, err)
		require.Equal(t, 2*time.Hour, time.Since(start), "Synced, then the object")
		for range 1000 {
			s.Edit(keyA, func(o *resource.Object) { o.Parts[resource.Spec] += "x" })
		}
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		require.LessOrEqual(t, shown, 4, "many changes are shown as one")
		require.Len(t, s.All()[keyA].Parts[resource.Spec], 1000)
	})
}
