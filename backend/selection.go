package backend

import (
	"context"
	"fmt"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Selection is a Store of which some objects are Excluded by their labels. It shows them
// all the same: an object that is selected no more is not one that is gone. What is
// Excluded stays as it is until its labels or the selection are others.
type Selection struct {
	Store
	// Selects reports whether an object with these labels is not Excluded.
	Selects func(labels map[string]string) bool
	Name    string // of what selects, for those who have set it
}

var _ Store = Selection{}

// Write implements Store. An object that would be Excluded once it is written is refused:
// else the writer would find it changed, and itself kept from changing it back.
func (s Selection) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	if want.Excluded || !s.selects(want) {
		return resource.Object{}, fmt.Errorf("selection: write %s: its labels do not match %s: %w", want.Key, s.Name, ErrRefused)
	}
	stored, err := s.Store.Write(ctx, want)
	if err != nil {
		return resource.Object{}, err
	}
	return s.exclude(stored), nil
}

// Watch implements Store.
func (s Selection) Watch(ctx context.Context, scope Scope, f func(Event) error) error {
	return s.Store.Watch(ctx, scope, func(e Event) error {
		if e.Put != nil {
			o := s.exclude(*e.Put)
			e.Put = &o
		}
		return f(e)
	})
}

func (s Selection) exclude(o resource.Object) resource.Object {
	if s.selects(o) {
		return o
	}
	return excluded(o)
}

func (s Selection) selects(o resource.Object) bool {
	return s.Selects(resource.ParseMetadata(o.Parts[resource.Meta]).Labels)
}
