package kubestore

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Read takes an object of the API apart as a Store on that side does. A kind that no Store
// knows is backend.ErrRefused.
func Read(side resource.Side, object map[string]any) (resource.Object, error) {
	u := &unstructured.Unstructured{Object: object}
	l, err := layoutOf(resource.Kind(u.GetKind()))
	if err != nil {
		return resource.Object{}, err
	}
	return l.read(resource.Kind(u.GetKind()), side, u).Object, nil
}

// Create returns the object of the API that a Store on that side creates for want at now.
func Create(side resource.Side, want resource.Object, now time.Time) (map[string]any, error) {
	l, err := layoutOf(want.Key.Kind)
	if err != nil {
		return nil, err
	}
	return l.create(side, want, now.UTC().Format(time.RFC3339))
}

// Patch returns the JSON merge patch by which a Store on that side makes an object of the
// API into want at now; "" if there is nothing to change.
func Patch(side resource.Side, object map[string]any, want resource.Object, now time.Time) (string, error) {
	l, err := layoutOf(want.Key.Kind)
	if err != nil {
		return "", err
	}
	cur := l.read(want.Key.Kind, side, &unstructured.Unstructured{Object: object})
	return l.patch(side, cur, want, now.UTC().Format(time.RFC3339))
}

func layoutOf(kind resource.Kind) (layout, error) {
	l, ok := layouts[kind]
	if !ok {
		return layout{}, fmt.Errorf("kubestore: objects of kind %q: %w", kind, backend.ErrRefused)
	}
	return l, nil
}
