package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

var errOver = errors.New("the test is over")

// A watcher is a watch that runs until the test is over, and remembers what it was shown
// of the World's namespaces.
type watcher struct {
	world World
	stop  context.CancelCauseFunc
	ended chan struct{} // closed once Watch has returned err
	err   error

	mu     sync.Mutex
	events []backend.Event
	grown  chan struct{} // closed when events grows
}

// watch starts a watch, and returns once it is Synced. Each of pause is called before an
// event is remembered.
func (w World) watch(t *testing.T, scope backend.Scope, pause ...func(backend.Event)) *watcher {
	ctx, stop := context.WithCancelCause(context.Background())
	r := &watcher{world: w, stop: stop, ended: make(chan struct{}), grown: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = w.Store.Watch(ctx, scope, func(e backend.Event) error {
			if !w.holds(e) {
				return nil
			}
			for _, p := range pause {
				p(e)
			}
			r.add(e)
			return nil
		})
	}()
	t.Cleanup(func() {
		stop(errOver)
		<-r.ended
	})
	r.synced(t)
	return r
}

// holds reports whether e is of the World: other tests may use the same cluster.
func (w World) holds(e backend.Event) bool {
	switch {
	case e.Put != nil:
		return slices.Contains(w.Namespaces[:], e.Put.Key.Namespace)
	case e.Gone != nil:
		return slices.Contains(w.Namespaces[:], e.Gone.Key.Namespace)
	}
	return true
}

func (r *watcher) add(e backend.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	close(r.grown)
	r.grown = make(chan struct{})
}

// all returns the events so far, and what is closed when there are more.
func (r *watcher) all() ([]backend.Event, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.events), r.grown
}

// until waits until the events so far satisfy cond, and returns them.
func (r *watcher) until(t *testing.T, what string, cond func([]backend.Event) bool) []backend.Event {
	t.Helper()
	give := time.NewTimer(patience)
	defer give.Stop()
	for {
		events, grown := r.all()
		if cond(events) {
			return events
		}
		select {
		case <-grown:
		case <-r.ended:
			require.FailNow(t, "the watch has ended", "%s: %v", what, r.err)
		case <-give.C:
			require.FailNow(t, "the watch never shows "+what)
		}
	}
}

func (r *watcher) synced(t *testing.T) *backend.Synced {
	t.Helper()
	synced := func(e backend.Event) bool { return e.Synced != nil }
	events := r.until(t, "Synced", func(es []backend.Event) bool { return slices.ContainsFunc(es, synced) })
	return events[slices.IndexFunc(events, synced)].Synced
}

// shows waits until the last thing that was shown of k satisfies cond: the object, or
// the zero Object if it is gone.
func (r *watcher) shows(t *testing.T, k resource.Key, what string, cond func(resource.Object) bool) {
	t.Helper()
	r.until(t, what, func(es []backend.Event) bool {
		last := of(es, k)
		if len(last) == 0 {
			return false
		}
		if put := last[len(last)-1].Put; put != nil {
			return cond(*put)
		}
		return cond(resource.Object{})
	})
}

// gone waits until k is shown as gone, and returns how.
func (r *watcher) gone(t *testing.T, k resource.Key) backend.Gone {
	t.Helper()
	r.shows(t, k, "that it is gone", func(o resource.Object) bool { return o.Version == "" })
	events, _ := r.all()
	last := of(events, k)
	return *last[len(last)-1].Gone
}

// objects returns what exists according to the events so far.
func (r *watcher) objects() map[resource.Key]resource.Object {
	events, _ := r.all()
	out := map[resource.Key]resource.Object{}
	for _, e := range events {
		switch {
		case e.Put != nil:
			out[e.Put.Key] = *e.Put
		case e.Gone != nil:
			delete(out, e.Gone.Key)
		}
	}
	return out
}

// last returns what was shown last of k, now.
func (r *watcher) last(k resource.Key) backend.Event {
	events, _ := r.all()
	es := of(events, k)
	if len(es) == 0 {
		return backend.Event{}
	}
	return es[len(es)-1]
}

// of returns those events that are about k.
func of(events []backend.Event, k resource.Key) []backend.Event {
	var out []backend.Event
	for _, e := range events {
		if e.Put != nil && e.Put.Key == k || e.Gone != nil && e.Gone.Key == k {
			out = append(out, e)
		}
	}
	return out
}
