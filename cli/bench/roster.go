package bench

import (
	"context"
	"sync"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A roster is a registry of managed agents, the first of which are there from the beginning.
type roster struct {
	all  []backend.Agent
	news chan struct{} // holds an element if there may be more of them

	mu  sync.Mutex
	now int
}

func newRoster(n, first int) *roster {
	r := &roster{news: make(chan struct{}, 1), now: first}
	for i := range n {
		r.all = append(r.all, backend.Agent{Name: fleet.Name(i), Mode: resource.Managed})
	}
	return r
}

// present returns the agents that there are now.
func (r *roster) present() []backend.Agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[:r.now]
}

// complete registers the others. It is called once.
func (r *roster) complete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = len(r.all)
	r.news <- struct{}{}
}

// Watch implements backend.Registry.
func (r *roster) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	for {
		if err := f(r.present()); err != nil {
			return err
		}
		select {
		case <-r.news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
