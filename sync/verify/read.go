package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

var errWhole = errors.New("the store has been listed")

// veiled returns o as it may be shown: of a Secret nothing but a digest.
func veiled(o resource.Object) resource.Object {
	if spec := o.Parts[resource.Spec]; o.Key.Kind == resource.Secret && spec != "" {
		o.Parts[resource.Spec] = resource.Canonical(string(resource.Sum(spec)))
	}
	return o
}

// Read returns all objects of a store within scope, sorted by key, as a watch that is
// begun now shows them. Of what is in Secrets it returns a digest.
func Read(ctx context.Context, store backend.Store, scope backend.Scope) ([]resource.Object, error) {
	objects := map[resource.Key]resource.Object{}
	err := store.Watch(ctx, scope, func(e backend.Event) error {
		switch {
		case e.Put != nil:
			objects[e.Put.Key] = veiled(*e.Put)
		case e.Gone != nil:
			delete(objects, e.Gone.Key)
		default:
			return errWhole
		}
		return nil
	})
	if !errors.Is(err, errWhole) {
		return nil, fmt.Errorf("verify: read store: %w", err)
	}
	return slices.SortedFunc(maps.Values(objects), func(a, b resource.Object) int { return a.Key.Compare(b.Key) }), nil
}
