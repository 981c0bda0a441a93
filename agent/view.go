package agent

import (
	"context"
	"fmt"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// view returns one namespace of a store as a session sees it: on the link its objects
// have none. listed is called when a watch has shown all objects that there are.
func view(cluster backend.Store, namespace string, listed func()) backend.Store {
	return fence{listed, backend.NewView(backend.ViewConfig{
		Store: cluster,
		Scope: backend.In(namespace),
		Out: func(o resource.Object) (resource.Object, bool) {
			here := o.Key.Namespace == namespace
			o.Key.Namespace = ""
			return o, here
		},
		In: func(o resource.Object) resource.Object { return o },
		Key: func(k resource.Key) resource.Key {
			k.Namespace = namespace
			return k
		},
	})}
}

// A fence keeps the principal from writing objects of other namespaces.
type fence struct {
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
	if want.Key.Namespace != "" {
		return resource.Object{}, fmt.Errorf("agent: %s is in a namespace that is not kept in step: %w", want.Key, backend.ErrRefused)
	}
	return f.Store.Write(ctx, want)
}
