// Package observe lets an agent join a live cluster without touching it. Its Store shows
// everything, and writes only objects that a user has adopted. All else it withholds: what
// an engine would have written it says itself, at any time, see engine.Plan.
//
// That an object carries the marks of a copy is no reason to write it: on a cluster where
// another agent has worked all of them do. What is adopted is kept in a list, and where
// that is lost nothing is adopted: to forget it is safe.
package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A List is what keeps the names of what is adopted: ledger.Set is one. An error says that
// it may not be kept for the next process.
type List interface {
	Has(name string) bool
	All() []string
	Add(names ...string) error
	Remove(names ...string) error
}

// A Store is a backend.Store of which only what is adopted is written.
type Store struct {
	inner   backend.Store
	adopted List

	mu   sync.Mutex
	busy map[resource.Key]chan struct{} // being written; closed when it is no more
}

var _ backend.Store = (*Store)(nil)

// New returns a Store that shows inner. Names in adopted are those of keys, see
// resource.Key.String.
func New(inner backend.Store, adopted List) *Store {
	return &Store{inner: inner, adopted: adopted, busy: map[resource.Key]chan struct{}{}}
}

// Watch implements backend.Store.
func (s *Store) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	return s.inner.Watch(ctx, scope, f)
}

// Write implements backend.Store. It is backend.ErrWithheld for what is not adopted.
func (s *Store) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	done, err := s.enter(ctx, want.Key)
	if err != nil {
		return resource.Object{}, err
	}
	defer done()
	return s.inner.Write(ctx, want)
}

// Remove implements backend.Store. It is backend.ErrWithheld for what is not adopted.
func (s *Store) Remove(ctx context.Context, k resource.Key, version string) error {
	done, err := s.enter(ctx, k)
	if err != nil {
		return err
	}
	defer done()
	return s.inner.Remove(ctx, k, version)
}

// enter begins a write of k if it is adopted.
func (s *Store) enter(ctx context.Context, k resource.Key) (done func(), err error) {
	if done, err = s.take(ctx, k); err != nil {
		return nil, err
	}
	if !s.adopted.Has(k.String()) {
		done()
		return nil, fmt.Errorf("observe: %s: %w", k, backend.ErrWithheld)
	}
	return done, nil
}

// take waits until nobody else writes k.
func (s *Store) take(ctx context.Context, k resource.Key) (done func(), err error) {
	for {
		s.mu.Lock()
		other, busy := s.busy[k]
		if !busy {
			mine := make(chan struct{})
			s.busy[k] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.busy, k)
				s.mu.Unlock()
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("observe: %s: %w", k, context.Cause(ctx))
		}
	}
}

// Adopted returns the names of what is adopted, sorted.
func (s *Store) Adopted() []string { return s.adopted.All() }

// Adopt has objects written from now on, whether they are there or not.
func (s *Store) Adopt(keys ...resource.Key) error {
	names := make([]string, 0, len(keys))
	for _, k := range keys {
		names = append(names, k.String())
	}
	return s.adopted.Add(names...)
}

// attempts is how often an object that others change meanwhile is looked at again.
const attempts = 10

// Release has an object written no more, and takes off what marks it as a copy. All else
// of it stays as it is. One that is excluded keeps its marks, as all it has.
func (s *Store) Release(ctx context.Context, k resource.Key) error {
	done, err := s.take(ctx, k)
	if err != nil {
		return err
	}
	defer done()
	kept := s.adopted.Remove(k.String())
	for range attempts {
		if err = s.unmark(ctx, k); !errors.Is(err, backend.ErrConflict) {
			break
		}
	}
	if err = errors.Join(kept, err); err != nil {
		return fmt.Errorf("observe: release %s: %w", k, err)
	}
	return nil
}

// unmark takes the marks off an object, if it is there.
func (s *Store) unmark(ctx context.Context, k resource.Key) error {
	o, there, err := s.find(ctx, k)
	if err != nil || !there || o.Excluded || o.Deleting {
		return err
	}
	bare := o
	bare.Origin = resource.Origin{}
	bare.Parts[resource.OpID], bare.Parts[resource.Refresh] = "", ""
	if bare == o {
		return nil
	}
	_, err = s.inner.Write(ctx, bare)
	return err
}

var errListed = errors.New("the store has been listed")

// find returns an object as it is now.
func (s *Store) find(ctx context.Context, k resource.Key) (o resource.Object, there bool, err error) {
	err = s.inner.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
		switch {
		case e.Synced != nil:
			return errListed
		case e.Put != nil && e.Put.Key == k:
			o, there = *e.Put, true
		case e.Gone != nil && e.Gone.Key == k:
			o, there = resource.Object{}, false
		}
		return nil
	})
	if !errors.Is(err, errListed) {
		return o, there, err
	}
	return o, there, nil
}
