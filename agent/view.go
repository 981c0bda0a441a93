package agent

import (
	"context"
	"fmt"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// view returns of a store what is kept in step, as a session sees it. listed is called when a
// watch has shown all objects that there are.
func (p Placement) view(cluster backend.Store, listed func()) backend.Store {
	return fence{p, listed, backend.NewView(backend.ViewConfig{
		Store: cluster,
		Scope: backend.In(p.Namespaces()...),
		Out:   p.Out,
		In:    func(o resource.Object) resource.Object { return o },
		Key: func(k resource.Key) resource.Key {
			k, _ = p.In(k) // the fence lets no other through
			return k
		},
	})}
}

// A fence keeps the principal from changing objects where they may not be.
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
	if _, why := f.place.In(want.Key); why != "" {
		return resource.Object{}, fmt.Errorf("agent: write %s: %s: %w", want.Key, why, backend.ErrRefused)
	}
	return f.Store.Write(ctx, want)
}

// Remove implements backend.Store.
func (f fence) Remove(ctx context.Context, k resource.Key, version string) error {
	if _, why := f.place.In(k); why != "" {
		return fmt.Errorf("agent: remove %s: %s: %w", k, why, backend.ErrRefused)
	}
	return f.Store.Remove(ctx, k, version)
}
