// Package filestore keeps objects in a folder, a file each: a backend.Store that was written
// outside the project, as an example. While a Store runs, the folder is its own.
package filestore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Store is a backend.Store in a folder.
type Store struct {
	dir      string
	feed     backend.Feed
	mu       sync.Mutex
	objects  map[resource.Key]object
	revision uint64 // of the last change, also in the file "revision"
}

// An object is what is in a file. It is held if it carries a finalizer of somebody else.
type object struct {
	resource.Object
	Held bool
}

// New returns a Store of what the folder holds, which must exist.
func New(dir string) (*Store, error) {
	s := &Store{dir: dir, objects: map[resource.Key]object{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("filestore: open: %w", err)
	}
	for _, file := range files {
		var o object
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &o)
		}
		if err != nil {
			return nil, fmt.Errorf("filestore: read %s: %w", file, err)
		}
		s.objects[o.Key] = o
	}
	text, err := os.ReadFile(filepath.Join(dir, "revision"))
	if err == nil {
		s.revision, err = strconv.ParseUint(string(text), 10, 64)
	} else if os.IsNotExist(err) && len(files) == 0 {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("filestore: read revision: %w", err)
	}
	return s, nil
}

// Write implements backend.Store. A spec that is no JSON is refused.
func (s *Store) Write(ctx context.Context, want resource.Object) (o resource.Object, err error) {
	err = s.change(ctx, want.Key, func(cur object) (object, error) {
		next := cur
		next.Key, next.Parts, next.Origin = want.Key, want.Parts, want.Origin
		next.Ours = backend.Ours(cur.Object, next.Object, true)
		switch spec := want.Parts[resource.Spec]; {
		case cur.Version != want.Version:
			return cur, backend.ErrConflict
		case spec != "" && !json.Valid([]byte(spec)):
			return cur, fmt.Errorf("%w: its spec is no JSON", backend.ErrRefused)
		case cur.Version != "" && next.Parts == cur.Parts && next.Origin == cur.Origin:
			next = cur
		}
		return next, nil
	}, &o)
	if err != nil {
		return resource.Object{}, fmt.Errorf("filestore: write %s: %w", want.Key, err)
	}
	return o, nil
}

// Remove implements backend.Store.
func (s *Store) Remove(ctx context.Context, k resource.Key, version string) error {
	err := s.change(ctx, k, func(cur object) (object, error) {
		if version == "" || cur.Version != version {
			return cur, backend.ErrConflict
		}
		cur.Deleting = true
		return cur, nil
	}, new(resource.Object))
	if err != nil {
		return fmt.Errorf("filestore: remove %s: %w", k, err)
	}
	return nil
}

// Watch implements backend.Store.
func (s *Store) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	s.mu.Lock()
	var objects []resource.Object
	for k, o := range s.objects {
		if scope.Namespace == "" || scope.Namespace == k.Namespace {
			objects = append(objects, o.Object)
		}
	}
	run := s.feed.Watch(scope, objects, backend.Synced{Revision: s.revision})
	s.mu.Unlock()
	return run(ctx, f)
}

// change stores what f makes of the object k, and returns once all watches have shown it.
func (s *Store) change(ctx context.Context, k resource.Key, f func(object) (object, error), out *resource.Object) error {
	err := s.apply(ctx, k, f, out)
	if err == nil {
		err = s.feed.Shown(ctx, k)
	}
	return err
}

func (s *Store) apply(ctx context.Context, k resource.Key, f func(object) (object, error), out *resource.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cur := s.objects[k]
	next, err := f(cur)
	if *out = next.Object; err != nil || next == cur {
		return err
	}
	revision := strconv.FormatUint(s.revision+1, 10)
	if next.Version = revision; next.UID == "" {
		next.UID = filepath.Base(s.dir) + "-" + revision
	}
	ends := next.Deleting && !next.Held && len(resource.ParseMetadata(next.Parts[resource.Meta]).Finalizers) == 0
	if err := s.save(next, ends, revision); err != nil {
		return err
	}
	s.revision++
	*out = next.Object
	if ends {
		delete(s.objects, k)
		s.feed.Gone(backend.Gone{Key: k, UID: next.UID, Seen: true})
	} else {
		s.objects[k] = next
		s.feed.Put(next.Object)
	}
	return nil
}

// save writes the revision first: one that was given is never given again.
func (s *Store) save(o object, ends bool, revision string) error {
	if err := replace(filepath.Join(s.dir, "revision"), []byte(revision)); err != nil {
		return err
	}
	file := filepath.Join(s.dir, strings.ReplaceAll(url.PathEscape(o.Key.String()), ".", "%2E")+".json")
	if ends {
		return os.Remove(file)
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return replace(file, text)
}

// replace replaces a file as a whole.
func replace(file string, text []byte) error {
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
