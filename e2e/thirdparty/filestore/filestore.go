// Package filestore keeps objects in a folder, a file each: a backend.Store that was written
// outside the project, as an example. While a Store is used, the folder is its own.
package filestore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Store is a backend.Store in a folder.
type Store struct {
	dir     string
	feed    backend.Feed
	mu      sync.Mutex
	objects map[resource.Key]object
}

// An object is what is in a file. It is held if it carries a finalizer of somebody else.
type object struct {
	resource.Object
	Held bool
}

// New returns a Store of what a folder holds, which must exist.
func New(dir string) (*Store, error) {
	s := &Store{dir: dir, objects: map[resource.Key]object{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, file := range files {
		var o object
		text, bad := os.ReadFile(file)
		err = errors.Join(err, bad, json.Unmarshal(text, &o))
		s.objects[o.Key] = o
	}
	if err != nil {
		return nil, fmt.Errorf("filestore: read %s: %w", dir, err)
	}
	return s, nil
}

// Write implements backend.Store. A spec that is no JSON is refused.
func (s *Store) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	return s.change(ctx, want.Key, func(o *object) error {
		before, spec := o.Object, want.Parts[resource.Spec]
		if before.Version != want.Version {
			return backend.ErrConflict
		}
		if spec != "" && !json.Valid([]byte(spec)) {
			return fmt.Errorf("%w: its spec is no JSON", backend.ErrRefused)
		}
		o.Key, o.Parts, o.Origin = want.Key, want.Parts, want.Origin
		o.Ours = backend.Ours(before, o.Object, true)
		return nil
	})
}

// Remove implements backend.Store.
func (s *Store) Remove(ctx context.Context, k resource.Key, version string) error {
	_, err := s.change(ctx, k, func(o *object) error {
		if version == "" || o.Version != version {
			return backend.ErrConflict
		}
		o.Deleting = true
		return nil
	})
	return err
}

// Watch implements backend.Store.
func (s *Store) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	s.mu.Lock()
	var objects []resource.Object
	for k, o := range s.objects {
		if scope.Holds(k.Namespace) {
			objects = append(objects, o.Object)
		}
	}
	run := s.feed.Watch(scope, objects, backend.Synced{})
	s.mu.Unlock()
	return run(ctx, f)
}

// change stores what f makes of the object k, and returns once all watches have shown it.
func (s *Store) change(ctx context.Context, k resource.Key, f func(*object) error) (resource.Object, error) {
	o, err := s.apply(ctx, k, f)
	if err == nil {
		err = s.feed.Shown(ctx, k)
	}
	if err != nil {
		return resource.Object{}, fmt.Errorf("filestore: %s: %w", k, err)
	}
	return o, nil
}

func (s *Store) apply(ctx context.Context, k resource.Key, f func(*object) error) (resource.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur := s.objects[k]
	next := cur
	if err := errors.Join(context.Cause(ctx), f(&next)); err != nil {
		return cur.Object, err
	}
	if next == cur && cur.UID != "" {
		return cur.Object, nil
	}
	if next.Version = rand.Text(); next.UID == "" {
		next.UID = rand.Text()
	}
	file := filepath.Join(s.dir, strings.ReplaceAll(url.PathEscape(k.String()), ".", "%2E")+".json")
	if next.Deleting && !next.Held && len(resource.ParseMetadata(next.Parts[resource.Meta]).Finalizers) == 0 {
		if err := os.Remove(file); err != nil {
			return cur.Object, err
		}
		delete(s.objects, k)
		s.feed.Gone(backend.Gone{Key: k, UID: next.UID, Seen: true})
		return next.Object, nil
	}
	text, err := json.Marshal(next)
	if err == nil {
		err = replace(file, text)
	}
	if err != nil {
		return cur.Object, err
	}
	s.objects[k] = next
	s.feed.Put(next.Object)
	return next.Object, nil
}

// replace replaces a file as a whole.
func replace(file string, text []byte) error {
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
