package backend_test

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func object(namespace, name string, version int) resource.Object {
	k := resource.Key{Kind: resource.Application, Namespace: namespace, Name: name}
	return resource.Object{Key: k, UID: name, Version: fmt.Sprint(version)}
}

// watched runs a watch that lets through one event whenever the test asks for one.
type watched struct {
	events chan backend.Event
	stop   context.CancelFunc
}

func watch(t *testing.T, f *backend.Feed, scope backend.Scope, objects ...resource.Object) watched {
	ctx, stop := context.WithCancel(t.Context())
	w := watched{make(chan backend.Event), stop}
	run := f.Watch(scope, objects, backend.Synced{Revision: 7})
	go func() {
		defer close(w.events)
		_ = run(ctx, func(e backend.Event) error {
			select {
			case w.events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return w
}

// next returns what the watch shows next, or nothing if it has nothing to show.
func (w watched) next() (e backend.Event) {
	synctest.Wait()
	select {
	case e = <-w.events:
	default:
	}
	synctest.Wait()
	return e
}

func TestFeedShowsTheLastStateOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f backend.Feed
		w := watch(t, &f, backend.Scope{}, object("", "a", 1), object("", "b", 2))
		for v := range 100 {
			f.Put(object("", "b", 3+v))
			f.Put(object("", "c", 103+v))
		}
		a, b, c := object("", "a", 1), object("", "b", 102), object("", "c", 202)
		require.Equal(t, backend.Event{Put: &a}, w.next())
		require.Equal(t, backend.Event{Put: &b}, w.next(), "still part of the list")
		require.Equal(t, backend.Event{Synced: &backend.Synced{Revision: 7}}, w.next())
		require.Equal(t, backend.Event{Put: &c}, w.next())
		require.Zero(t, w.next())
	})
}

// TestFeedKeepsDeletionsApart shows that whoever waits for a deletion is shown it, also
// when the key has changed hands before.
func TestFeedKeepsDeletionsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f backend.Feed
		w := watch(t, &f, backend.Scope{}, object("", "a", 1))
		require.NotNil(t, w.next().Put)
		k := object("", "a", 1).Key
		for _, uid := range []string{"first", "second", "third"} {
			f.Gone(backend.Gone{Key: k, UID: uid, Seen: true})
			f.Put(object("", "a", 5))
		}
		require.NotNil(t, w.next().Synced, "the watch was held up by this while all the rest happened")
		a := object("", "a", 5)
		require.Equal(t, backend.Event{Gone: &backend.Gone{Key: k, UID: "first", Seen: true}}, w.next())
		require.Equal(t, backend.Event{Gone: &backend.Gone{Key: k, UID: "third", Seen: true}}, w.next())
		require.Equal(t, backend.Event{Put: &a}, w.next())
		f.Gone(backend.Gone{Key: k, UID: "a"})
		require.Equal(t, backend.Event{Gone: &backend.Gone{Key: k, UID: "a"}}, w.next())
		require.Zero(t, w.next())
	})
}

func TestFeedWaitsForWatchesInScopeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f backend.Feed
		one, all := watch(t, &f, backend.In("one")), watch(t, &f, backend.Scope{})
		one.next()
		all.next()
		here, there := object("one", "a", 1), object("two", "a", 2)
		require.NoError(t, f.Shown(t.Context(), here.Key), "there is nothing to show")
		f.Put(here)
		f.Put(there)
		shown := func(k resource.Key) <-chan error {
			done := make(chan error, 1)
			go func() { done <- f.Shown(t.Context(), k) }()
			synctest.Wait()
			return done
		}
		waitsHere, waitsThere := shown(here.Key), shown(there.Key)
		require.Equal(t, &here, all.next().Put)
		require.Empty(t, waitsHere, "one is behind")
		require.Empty(t, waitsThere)
		require.Equal(t, &there, all.next().Put)
		require.Len(t, waitsThere, 1)
		one.stop() // which ends in the middle of showing it
		synctest.Wait()
		require.Len(t, waitsHere, 1)

		f.Put(here)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(fmt.Errorf("enough"))
		require.EqualError(t, f.Shown(ctx, here.Key), "enough")
	})
}

// TestFeedModel lets watches begin, end and show at any pace, and demands that what
// each has shown adds up to what there is.
func TestFeedModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			m := model{t: t, truth: map[resource.Key]resource.Object{}}
			for range rapid.IntRange(1, 80).Draw(r, "steps") {
				m.step(r)
			}
			for _, s := range m.seen {
				for s.show() {
				}
				require.Equal(t, m.inScope(s.scope), s.state)
				require.True(t, s.synced)
				s.stop()
			}
		})
	})
}

type model struct {
	t     *testing.T
	feed  backend.Feed
	truth map[resource.Key]resource.Object
	seen  []*seen
	made  int
}

// seen is what one watch has shown.
type seen struct {
	watched
	t      *testing.T
	scope  backend.Scope
	state  map[resource.Key]resource.Object
	synced bool
}

func (m *model) inScope(s backend.Scope) map[resource.Key]resource.Object {
	out := map[resource.Key]resource.Object{}
	for k, o := range m.truth {
		if s.Holds(k.Namespace) {
			out[k] = o
		}
	}
	return out
}

func (m *model) step(r *rapid.T) {
	name := func() (string, string) {
		return rapid.SampledFrom([]string{"one", "two"}).Draw(r, "namespace"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "name")
	}
	switch rapid.SampledFrom([]string{"put", "put", "gone", "watch", "show", "show"}).Draw(r, "step") {
	case "put":
		m.made++
		ns, n := name()
		o := object(ns, n, m.made)
		m.truth[o.Key] = o
		m.feed.Put(o)
	case "gone":
		ns, n := name()
		if o, ok := m.truth[object(ns, n, 0).Key]; ok {
			delete(m.truth, o.Key)
			m.feed.Gone(backend.Gone{Key: o.Key, UID: o.UID})
		}
	case "watch":
		s := &seen{t: m.t, scope: rapid.SampledFrom([]backend.Scope{{}, backend.In("one"), backend.In("two", "three"), backend.In("one", "two")}).Draw(r, "scope"), state: map[resource.Key]resource.Object{}}
		var list []resource.Object
		for _, o := range m.inScope(s.scope) {
			list = append(list, o)
		}
		s.watched = watch(m.t, &m.feed, s.scope, list...)
		m.seen = append(m.seen, s)
	case "show":
		if len(m.seen) > 0 {
			rapid.SampledFrom(m.seen).Draw(r, "watch").show()
		}
	}
}

// show takes in one event, if there is one; versions of a key never fall.
func (s *seen) show() bool {
	switch e := s.next(); {
	case e.Put != nil:
		require.Greater(s.t, number(s.t, e.Put.Version), number(s.t, s.state[e.Put.Key].Version))
		s.state[e.Put.Key] = *e.Put
	case e.Gone != nil:
		delete(s.state, e.Gone.Key)
	case e.Synced != nil:
		require.False(s.t, s.synced)
		s.synced = true
	default:
		return false
	}
	return true
}

func number(t *testing.T, version string) int {
	n, err := strconv.Atoi(cmp.Or(version, "0"))
	require.NoError(t, err)
	return n
}

func TestFeedEndsItsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f backend.Feed
		run := f.Watch(backend.Scope{}, []resource.Object{object("a", "x", 1)}, backend.Synced{Revision: 7})
		ended := make(chan error, 1)
		go func() { ended <- run(t.Context(), func(backend.Event) error { return nil }) }()
		synctest.Wait()
		f.End(backend.ErrRewound)
		f.Put(object("a", "x", 2))
		require.ErrorIs(t, <-ended, backend.ErrRewound)
		require.NoError(t, f.Shown(t.Context(), object("a", "x", 2).Key), "a watch that has ended is waited for no longer")
	})
}
