package bench

import (
	"context"
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A hubStore is the hub's store, which takes note of when a watch first shows a change, and of
// the statuses that are written.
type hubStore struct {
	backend.Store
	agents map[string]int // their numbers, by their names
	apps   int

	mu       sync.Mutex
	seen     map[int]time.Time // by the number of the change
	statuses tally
}

func newHubStore(s backend.Store, agents, apps int) *hubStore {
	h := &hubStore{Store: s, agents: map[string]int{}, seen: map[int]time.Time{}, apps: apps, statuses: newTally(agents * apps)}
	for i := range agents {
		h.agents[fleet.Name(i)] = i
	}
	return h
}

// Watch implements backend.Store.
func (h *hubStore) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	return h.Store.Watch(ctx, scope, func(e backend.Event) error {
		if e.Put != nil && e.Put.Key.Kind == resource.Application {
			h.see(*e.Put, time.Now())
		}
		return f(e)
	})
}

func (h *hubStore) see(o resource.Object, at time.Time) {
	n, err := fleet.Number(o)
	if err != nil {
		return // nobody's change
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.seen[n]; !known {
		h.seen[n] = at
	}
}

// saw returns when the change of a number was first shown, or at if it never was.
func (h *hubStore) saw(n int, at time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if seen, known := h.seen[n]; known {
		return seen
	}
	return at
}

// Write implements backend.Store.
func (h *hubStore) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	o, err := h.Store.Write(ctx, want)
	if err == nil && o.Key.Kind == resource.Application {
		h.wrote(o)
	}
	return o, err
}

// wrote takes note of a status.
func (h *hubStore) wrote(o resource.Object) {
	app, err := fleet.ParseApp(o.Key)
	n := fleet.StatusNumber(o)
	agent, known := h.agents[o.Key.Namespace]
	if err != nil || n == 0 || !known {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.statuses.take(agent*h.apps+app, n)
}

// told returns what has become of statuses by now.
func (h *hubStore) told() tally {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.statuses.clone()
}

// count returns how many statuses were written.
func (h *hubStore) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.statuses.written
}
