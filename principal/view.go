package principal

import (
	"context"
	"fmt"
	"sync"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// view returns the part of the hub's store that is the agent's, as its session sees it.
// listed is called when a watch has shown all objects that there are.
func (p Placement) view(hub backend.Store, listed func()) backend.Store {
	last := &lastAim{place: p}
	return fence{p, listed, backend.NewView(backend.ViewConfig{
		Store: routed{hub, p},
		Scope: backend.In(p.Namespaces()...),
		Out: func(o resource.Object) (resource.Object, bool) {
			k, ok := p.Out(o.Key)
			o.Key, o.Parts = k, last.down(k, o.Parts)
			return o, ok
		},
		In: func(o resource.Object) resource.Object {
			o.Parts = p.Up(o.Key, o.Parts)
			return o
		},
		Key: func(k resource.Key) resource.Key {
			k, _ = p.In(k) // the fence lets no other through
			return k
		},
	})}
}

// A lastAim knows what Down has made of a spec last. Each status that is written has the same
// Application shown three times, of which the spec is as it was.
type lastAim struct {
	place Placement

	mu        sync.Mutex
	from, own string // a spec of the hub's, and the agent's
}

// down is Down.
func (a *lastAim) down(k resource.Key, parts resource.Parts) resource.Parts {
	if k.Kind != resource.Application {
		return a.place.Down(k, parts)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if from := parts[resource.Spec]; a.from != from || from == "" {
		a.from, a.own = from, a.place.Down(k, parts)[resource.Spec]
	}
	parts[resource.Spec] = a.own
	return parts
}

// A fence keeps an agent from writing objects under keys that are not its own.
type fence struct {
	place  Placement
	listed func()
	backend.Store
}

// Watch implements backend.Store.
func (f fence) Watch(ctx context.Context, scope backend.Scope, show func(backend.Event) error) error {
	return f.Store.Watch(ctx, scope, func(e backend.Event) error {
		if e.Synced != nil {
			f.listed()
		}
		return show(e)
	})
}

// Write implements backend.Store.
func (f fence) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	if _, ok := f.place.In(want.Key); !ok {
		return resource.Object{}, fmt.Errorf("principal: %s is not for agent %s to name: %w", want.Key, f.place.Agent, backend.ErrRefused)
	}
	return f.Store.Write(ctx, want)
}
