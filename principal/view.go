package principal

import (
	"context"
	"fmt"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// view returns the part of the hub's store that is the agent's, as its session sees it.
// listed is called when a watch has shown all objects that there are.
func (p Placement) view(hub backend.Store, listed func()) backend.Store {
	return fence{p, listed, backend.NewView(backend.ViewConfig{
		Store: routed{hub, p},
		Scope: backend.In(p.Namespaces()...),
		Out: func(o resource.Object) (resource.Object, bool) {
			k, ok := p.Out(o.Key)
			o.Key, o.Parts = k, p.Down(k, o.Parts)
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
