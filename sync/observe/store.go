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
	"slices"
	"sync"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A List is what keeps the names of what is adopted, each with a note: ledger.Set is one. An
// error says that it may not be kept for the next process.
type List interface {
	Has(name string) bool
	Note(name string) string
	All() []string
	// Add leaves the notes of those alone that are there.
	Add(notes map[string]string) error
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

// Adopt has objects written from now on, whether they are there or not. What is there is
// noted, so that Release can bring it back.
func (s *Store) Adopt(ctx context.Context, keys ...resource.Key) error {
	there, err := s.find(ctx, keys)
	if err != nil {
		return fmt.Errorf("observe: adopt: %w", err)
	}
	notes := map[string]string{}
	for _, k := range keys {
		notes[k.String()] = noted(there[k])
	}
	return s.adopted.Add(notes)
}

// attempts is how often an object that others change meanwhile is looked at again.
const attempts = 10

// Release has objects written no more. They lose what marks them as copies, and get back what
// they had when they were adopted. One that was not there then stays, and so does all of one
// that is excluded. What could not be released stays adopted.
func (s *Store) Release(ctx context.Context, keys ...resource.Key) error {
	keys = slices.Compact(slices.SortedFunc(slices.Values(keys), resource.Key.Compare)) // so that two that wait do not wait for each other
	for _, k := range keys {
		done, err := s.take(ctx, k)
		if err != nil {
			return err
		}
		defer done()
	}
	there, err := s.find(ctx, keys)
	if err != nil {
		return fmt.Errorf("observe: release: %w", err)
	}
	var failed []error
	for _, k := range keys {
		if err := s.release(ctx, k, there[k]); err != nil {
			failed = append(failed, fmt.Errorf("observe: release %s: %w", k, err))
		}
	}
	return errors.Join(failed...)
}

// release releases an object that was found as o; nil is that it was not there. Nobody else
// writes it meanwhile.
func (s *Store) release(ctx context.Context, k resource.Key, o *resource.Object) (err error) {
	for range attempts {
		if err = s.restore(ctx, o, s.adopted.Note(k.String())); !errors.Is(err, backend.ErrConflict) {
			break
		}
		there, failed := s.find(ctx, []resource.Key{k})
		if failed != nil {
			return failed
		}
		o = there[k]
	}
	if err != nil {
		return err
	}
	return s.adopted.Remove(k.String())
}

// restore takes the marks off an object, if it is there, and gives it back what is noted.
func (s *Store) restore(ctx context.Context, o *resource.Object, note string) error {
	if o == nil || o.Excluded || o.Deleting {
		return nil
	}
	bare := former(*o, note)
	bare.Origin = resource.Origin{}
	bare.Parts[resource.OpID], bare.Parts[resource.Refresh] = "", ""
	if bare == *o {
		return nil
	}
	_, err := s.inner.Write(ctx, bare)
	return err
}

var errListed = errors.New("the store has been listed")

// find returns which of these objects there are, as they are now.
func (s *Store) find(ctx context.Context, keys []resource.Key) (map[resource.Key]*resource.Object, error) {
	wanted, there := map[resource.Key]bool{}, map[resource.Key]*resource.Object{}
	for _, k := range keys {
		wanted[k] = true
	}
	err := s.inner.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
		switch {
		case e.Synced != nil:
			return errListed
		case e.Put != nil && wanted[e.Put.Key]:
			there[e.Put.Key] = e.Put
		case e.Gone != nil:
			delete(there, e.Gone.Key)
		}
		return nil
	})
	if !errors.Is(err, errListed) {
		return nil, err
	}
	return there, nil
}
