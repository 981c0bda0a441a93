package failpoint

import (
	"context"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Store returns s with the points of a store.
func (t *Trap) Store(s backend.Store) backend.Store { return store{s, t} }

type store struct {
	backend.Store
	trap *Trap
}

// Write implements backend.Store.
func (s store) Write(ctx context.Context, want resource.Object) (stored resource.Object, err error) {
	before, after := BeforeChange, AfterChange
	if want.Version == "" {
		before, after = BeforeCreate, AfterCreate
	}
	err = s.trap.around(before, after, func() error {
		stored, err = s.Store.Write(ctx, want)
		return err
	})
	return stored, err
}

// Remove implements backend.Store.
func (s store) Remove(ctx context.Context, k resource.Key, version string) error {
	return s.trap.around(BeforeRemove, AfterRemove, func() error { return s.Store.Remove(ctx, k, version) })
}
