package demo

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Lie is what a liar does instead of what it is told.
type Lie string

// The lies. None of them can be seen by who is lied to.
const (
	None     Lie = ""
	Drop     Lie = "drop"     // writes are not done
	Corrupt  Lie = "corrupt"  // writes are done wrongly
	Undelete Lie = "undelete" // removals are not done
)

// A liar is a Store that says of every write or removal that it was done, and shows its
// watches what should be there, while what is there is something else. It lies about an
// object for ever once it has, and about none before it is armed.
type liar struct {
	backend.Store // the truth
	lie           Lie

	mu      sync.Mutex
	armed   bool
	lied    int
	told    map[resource.Key]*resource.Object // what is said of objects that are lied about; nil: that there is none
	watches map[*audience]struct{}
}

// An audience is a watch. Its mutex keeps what it is shown in one order.
type audience struct {
	mu    sync.Mutex
	scope backend.Scope
	show  func(backend.Event) error
}

func newLiar(truth backend.Store, l Lie) *liar {
	return &liar{Store: truth, lie: l, told: map[resource.Key]*resource.Object{}, watches: map[*audience]struct{}{}}
}

func (l *liar) arm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = l.lie != None
}

// Write implements backend.Store.
func (l *liar) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	if !l.lies(want.Key, Drop, Corrupt) {
		return l.Store.Write(ctx, want)
	}
	claimed, first, err := l.claim(want)
	if err != nil {
		return resource.Object{}, err
	}
	if first && l.lie == Corrupt {
		want.Parts[resource.Spec] = strings.ReplaceAll(want.Parts[resource.Spec], `"path":"`, `"path":"not-`)
		if _, err := l.Store.Write(ctx, want); err != nil {
			return resource.Object{}, err
		}
	}
	return claimed, l.say(want.Key, backend.Event{Put: &claimed})
}

// claim returns what is said of an object instead of want, and whether it is the first
// lie about it.
func (l *liar) claim(want resource.Object) (claimed resource.Object, first bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, already := l.told[want.Key]
	if before != nil && before.Version != want.Version {
		return claimed, false, fmt.Errorf("demo: write %s: %w", want.Key, backend.ErrConflict)
	}
	l.lied++
	claimed = want
	claimed.UID, claimed.Version = cmp.Or(want.UID, "claimed"), fmt.Sprint("claimed-", l.lied)
	l.told[want.Key] = &claimed
	return claimed, !already, nil
}

// Remove implements backend.Store.
func (l *liar) Remove(ctx context.Context, k resource.Key, version string) error {
	if !l.lies(k, Undelete) {
		return l.Store.Remove(ctx, k, version)
	}
	l.mu.Lock()
	l.told[k] = nil
	l.mu.Unlock()
	return l.say(k, backend.Event{Gone: &backend.Gone{Key: k, Seen: true}})
}

// Watch implements backend.Store.
func (l *liar) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	a := &audience{scope: scope, show: f}
	l.mu.Lock()
	l.watches[a] = struct{}{}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watches, a)
	}()
	return l.Store.Watch(ctx, scope, func(e backend.Event) error {
		if k, ok := keyOf(e); ok && l.liesAbout(k) {
			return nil
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		return f(e)
	})
}

// lies reports whether what is to be done to k is one of the lies that are to be told.
func (l *liar) lies(k resource.Key, lies ...Lie) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lie := range lies {
		if l.armed && l.lie == lie {
			return true
		}
	}
	_, already := l.told[k]
	return already
}

func (l *liar) liesAbout(k resource.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.told[k]
	return ok
}

func (l *liar) say(k resource.Key, e backend.Event) error {
	l.mu.Lock()
	var all []*audience
	for a := range l.watches {
		if a.scope.Holds(k.Namespace) {
			all = append(all, a)
		}
	}
	l.mu.Unlock()
	for _, a := range all {
		a.mu.Lock()
		err := a.show(e)
		a.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func keyOf(e backend.Event) (resource.Key, bool) {
	switch {
	case e.Put != nil:
		return e.Put.Key, true
	case e.Gone != nil:
		return e.Gone.Key, true
	}
	return resource.Key{}, false
}
