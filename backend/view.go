package backend

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// IgnoreLabel, with the value "true", excludes an object from synchronisation. It can be
// set on either side and at any time, and never deletes anything.
const IgnoreLabel = "argocd-agent.argoproj-labs.io/ignore-sync"

// Exclude returns o as it is to be seen: if it carries the IgnoreLabel it is Excluded
// and has no Parts, so that nothing of it travels; if not it is o.
func Exclude(o resource.Object) resource.Object {
	if !strings.Contains(o.Parts[resource.Meta], IgnoreLabel) {
		return o // which is so of nearly all, and is asked each time that one is shown or written
	}
	if resource.ParseMetadata(o.Parts[resource.Meta]).Labels[IgnoreLabel] == "true" {
		return excluded(o)
	}
	return o
}

func excluded(o resource.Object) resource.Object {
	o.Excluded, o.Parts = true, resource.Parts{}
	return o
}

// ViewConfig is what a View is made of: the window, and three pure functions.
type ViewConfig struct {
	Store Store
	// Scope is that of the objects of Store that may be in the view.
	Scope Scope
	// Out returns an object of Store as the view shows it, with the Key that it has there
	// and Parts rewritten, or false if the view does not show it. Different objects have
	// different Keys.
	Out func(resource.Object) (resource.Object, bool)
	// In is the inverse of Out for an object that is to be written, its Key excepted. Where
	// Out loses something, In returns what a new object is to have: parts of an object
	// that the writer has left as Out has shown them stay as they are in Store.
	In func(resource.Object) resource.Object
	// Key is the inverse of Out for a Key.
	Key func(resource.Key) resource.Key
}

// A View is a Store that is a filtered, renamed window on another, whose objects it
// shows as Out and Exclude say. An object that leaves the view is shown as Gone, and not
// as Seen: it was not deleted. One that is excluded does not leave.
//
// A View keeps no text of its own, but for each of its running watches the last version
// of each object (sharing its text with the Store): by it a Write knows which Parts its
// caller wants to change.
type View struct {
	cfg ViewConfig

	mu      sync.Mutex
	watches map[*window]struct{}
}

var _ Store = (*View)(nil)

// NewView returns a View.
func NewView(cfg ViewConfig) *View {
	return &View{cfg: cfg, watches: map[*window]struct{}{}}
}

// Write implements Store. Parts that equal what a running watch has shown of the version
// that is written stay as they are. If the view does not hold the object once it is
// written, what is returned has the Key and Parts of want.
func (v *View) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	inner := v.cfg.In(want)
	inner.Key = v.cfg.Key(want.Key)
	if cur, known := v.shown(inner.Key, want.Version); known && want.Version != "" {
		if cur.Version != want.Version {
			return resource.Object{}, fmt.Errorf("view: write %s: %w", want.Key, ErrConflict)
		}
		outer, _ := v.cfg.Out(cur)
		outer = Exclude(outer)
		for p, text := range want.Parts {
			if text == outer.Parts[p] {
				inner.Parts[p] = cur.Parts[p]
			}
		}
	}
	stored, err := v.cfg.Store.Write(ctx, inner)
	if err != nil {
		return resource.Object{}, err
	}
	outer, ok := v.cfg.Out(stored)
	if !ok {
		stored.Key, stored.Parts = want.Key, want.Parts
		return stored, nil
	}
	return Exclude(outer), nil
}

// Remove implements Store.
func (v *View) Remove(ctx context.Context, k resource.Key, version string) error {
	return v.cfg.Store.Remove(ctx, v.cfg.Key(k), version)
}

// Watch implements Store. Its scope is of the Keys that the view shows.
func (v *View) Watch(ctx context.Context, scope Scope, f func(Event) error) error {
	w := &window{view: v, scope: scope, show: f, shown: map[resource.Key]shown{}}
	v.mu.Lock()
	v.watches[w] = struct{}{}
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.watches, w)
	}()
	return v.cfg.Store.Watch(ctx, v.cfg.Scope, w.event)
}

// shown returns an object of Store as one of the view's watches has shown it last, that
// version if there is one that has, and whether any knows the object.
func (v *View) shown(inner resource.Key, version string) (cur resource.Object, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for w := range v.watches {
		s, ok := w.get(inner)
		if ok && (!known || s.inner.Version == version) {
			cur, known = s.inner, true
		}
	}
	return cur, known
}

// A window is one watch of a View.
type window struct {
	view  *View
	scope Scope
	show  func(Event) error

	mu    sync.Mutex
	shown map[resource.Key]shown // by the Key in Store
}

// A shown is an object of Store, and what the watch has shown it as.
type shown struct {
	inner resource.Object
	key   resource.Key
}

func (w *window) get(inner resource.Key) (shown, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.shown[inner]
	return s, ok
}

// event shows an event of Store as one of the view, if it is one.
func (w *window) event(e Event) error {
	switch {
	case e.Gone != nil:
		return w.gone(*e.Gone)
	case e.Put != nil:
		return w.put(*e.Put)
	}
	return w.show(e)
}

func (w *window) put(inner resource.Object) error {
	outer, ok := w.view.cfg.Out(inner)
	if !ok || !w.scope.Holds(outer.Key.Namespace) {
		return w.gone(Gone{Key: inner.Key, UID: inner.UID})
	}
	if before, ok := w.get(inner.Key); ok && before.key != outer.Key {
		if err := w.gone(Gone{Key: inner.Key, UID: inner.UID}); err != nil {
			return err
		}
	}
	w.mu.Lock()
	w.shown[inner.Key] = shown{inner, outer.Key}
	w.mu.Unlock()
	outer = Exclude(outer)
	return w.show(Event{Put: &outer})
}

// gone shows that the view holds an object no more, if the watch has shown it.
func (w *window) gone(g Gone) error {
	before, ok := w.get(g.Key)
	if !ok {
		return nil
	}
	w.mu.Lock()
	delete(w.shown, g.Key)
	w.mu.Unlock()
	g.Key = before.key
	return w.show(Event{Gone: &g})
}
