// Package memstore keeps objects in memory: the reference implementation of
// backend.Store, and a cluster for simulations and demos. Besides the Store it has the
// hands of everybody else in a cluster: users, other controllers, and accidents.
//
// It behaves as the Kubernetes API does: versions are numbers that grow with every
// change in the store, a write that changes nothing makes no version, and an object with
// a finalizer is marked when it is deleted, and vanishes once its finalizers are gone.
package memstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Config is what a Store is made of. The zero Config is a good one.
type Config struct {
	// Name begins every UID that the store gives: stores whose objects meet have
	// different names.
	Name string
	// Admit, if set, is asked about every object that is to be written; what it returns
	// an error for is refused for good. It must not call the store.
	Admit func(resource.Object) error
}

// Store is a backend.Store in memory. Its methods may be called concurrently; those
// which are not backend.Store's neither fail nor wait for watches.
type Store struct {
	cfg  Config
	feed backend.Feed

	mu       sync.Mutex
	objects  map[resource.Key]object
	revision uint64
	made     uint64 // how many UIDs were given
}

var _ backend.Store = (*Store)(nil)

// An object is held if somebody else's finalizer is on it.
type object struct {
	resource.Object
	held bool
}

// stays reports whether a deletion waits for a finalizer.
func (o object) stays() bool {
	return o.held || len(resource.ParseMetadata(o.Parts[resource.Meta]).Finalizers) > 0
}

// New returns an empty Store.
func New(cfg Config) *Store {
	cfg.Name = cmp.Or(cfg.Name, "memory")
	return &Store{cfg: cfg, objects: map[resource.Key]object{}}
}

// Write implements backend.Store.
func (s *Store) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	stored, err := s.write(ctx, want)
	if err == nil {
		err = s.feed.Shown(ctx, want.Key)
	}
	if err != nil {
		return resource.Object{}, fmt.Errorf("memstore: write %s: %w", want.Key, err)
	}
	return stored, nil
}

func (s *Store) write(ctx context.Context, want resource.Object) (resource.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return resource.Object{}, context.Cause(ctx)
	}
	cur := s.objects[want.Key]
	if cur.Version != want.Version {
		return resource.Object{}, backend.ErrConflict
	}
	next := cur
	next.Key, next.Parts, next.Origin = want.Key, want.Parts, want.Origin
	if want.Parts[resource.Meta] != cur.Parts[resource.Meta] { // else it is canonical
		next.Parts = canonical(want.Parts)
	}
	if err := s.admit(cur, next); err != nil {
		return resource.Object{}, fmt.Errorf("%w: %w", backend.ErrRefused, err)
	}
	if cur.Version != "" && cur.Parts == next.Parts && cur.Origin == next.Origin {
		return cur.Object, nil
	}
	next.Ours = ours(cur, next, true)
	return s.put(next), nil
}

// admit says why next must not take the place of cur, if there is a reason.
func (s *Store) admit(cur, next object) error {
	if next.Deleting {
		had := resource.ParseMetadata(cur.Parts[resource.Meta]).Finalizers
		for _, f := range resource.ParseMetadata(next.Parts[resource.Meta]).Finalizers {
			if !slices.Contains(had, f) {
				return errors.New("no finalizer can be added to an object that is being deleted")
			}
		}
	}
	if s.cfg.Admit == nil {
		return nil
	}
	return s.cfg.Admit(next.Object)
}

// Remove implements backend.Store.
func (s *Store) Remove(ctx context.Context, k resource.Key, version string) error {
	err := s.remove(ctx, k, version)
	if err == nil {
		err = s.feed.Shown(ctx, k)
	}
	if err != nil {
		return fmt.Errorf("memstore: remove %s: %w", k, err)
	}
	return nil
}

func (s *Store) remove(ctx context.Context, k resource.Key, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cur, ok := s.objects[k]
	if !ok || cur.Version != version {
		return backend.ErrConflict
	}
	s.mark(cur)
	return nil
}

// Watch implements backend.Store. Objects are listed in the order of their keys.
func (s *Store) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	s.mu.Lock()
	var objects []resource.Object
	for k, o := range s.objects {
		if scope.Holds(k.Namespace) {
			objects = append(objects, o.Object)
		}
	}
	slices.SortFunc(objects, func(a, b resource.Object) int { return a.Key.Compare(b.Key) })
	run := s.feed.Watch(scope, objects, backend.Synced{Revision: s.revision})
	s.mu.Unlock()
	if err := run(ctx, f); err != nil {
		return fmt.Errorf("memstore: watch: %w", err)
	}
	return nil
}

// mark deletes o, or marks it if its deletion has to wait.
func (s *Store) mark(o object) {
	if o.Deleting {
		return
	}
	o.Deleting = true
	s.put(o)
}

// put stores o under a new version, or lets it vanish if nothing keeps it.
func (s *Store) put(o object) resource.Object {
	s.revision++
	o.Version = strconv.FormatUint(s.revision, 10)
	if o.UID == "" {
		s.made++
		o.UID = fmt.Sprintf("%s-%d", s.cfg.Name, s.made)
	}
	if o.Deleting && !o.stays() {
		delete(s.objects, o.Key)
		s.feed.Gone(backend.Gone{Key: o.Key, UID: o.UID, Seen: true})
		return o.Object
	}
	s.objects[o.Key] = o
	s.feed.Put(o.Object)
	return o.Object
}

// ours is backend.Ours, which is as it was if the metadata is.
func ours(cur, next object, us bool) string {
	if cur.UID != "" && cur.Origin == next.Origin && cur.Parts[resource.Meta] == next.Parts[resource.Meta] {
		return cur.Ours
	}
	return backend.Ours(cur.Object, next.Object, us)
}

func canonical(p resource.Parts) resource.Parts {
	p[resource.Meta] = resource.ParseMetadata(p[resource.Meta]).Text()
	return p
}

// All returns a copy of everything that there is.
func (s *Store) All() map[resource.Key]resource.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[resource.Key]resource.Object, len(s.objects))
	for k, o := range s.objects {
		out[k] = o.Object
	}
	return out
}

// Get returns the object k, and whether there is one.
func (s *Store) Get(k resource.Key) (resource.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[k]
	return o.Object, ok
}

// A Snapshot is everything that a Store held at one time.
type Snapshot struct {
	objects  map[resource.Key]object
	revision uint64
}

// Snapshot returns everything that the store holds.
func (s *Store) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{maps.Clone(s.objects), s.revision}
}
