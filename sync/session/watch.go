package session

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// watch shows the store to the Engine. A watch that fails is begun anew; what exists no
// more by then has vanished, unseen.
func (s *Session) watch(ctx context.Context) error {
	known := map[resource.Key]string{} // the UIDs of all that the Engine takes to exist
	return s.retry(ctx, "watch store", func(ctx context.Context) error {
		defer s.listing.ended()
		w := watcher{s: s, known: known, listed: map[resource.Key]bool{}}
		err := s.cfg.Store.Watch(ctx, s.cfg.Scope, func(e backend.Event) error { return w.show(ctx, e) })
		if err == nil {
			err = errors.New("the watch has ended")
		}
		return err
	})
}

// A watcher is one watch of the store.
type watcher struct {
	s      *Session
	known  map[resource.Key]string
	listed map[resource.Key]bool // shown by this watch before Synced; nil after it
	far    uint64                // the newest version of them, which may have come while they were shown
}

func (w *watcher) show(ctx context.Context, e backend.Event) error {
	switch {
	case e.Put != nil:
		return w.put(ctx, *e.Put)
	case e.Gone != nil:
		return w.gone(ctx, engine.Vanished{Key: e.Gone.Key, UID: e.Gone.UID, Seen: e.Gone.Seen})
	default:
		return w.synced(ctx, *e.Synced)
	}
}

func (w *watcher) put(ctx context.Context, o resource.Object) error {
	if uid, ok := w.known[o.Key]; ok && uid != o.UID {
		if err := w.gone(ctx, engine.Vanished{Key: o.Key, UID: uid}); err != nil {
			return err
		}
	}
	w.known[o.Key] = o.UID
	if w.listed != nil {
		w.listed[o.Key] = true
		w.far = max(w.far, engine.RevisionOf(o.Version))
	}
	return w.s.put(ctx, engine.Changed{Object: o}, nil)
}

func (w *watcher) gone(ctx context.Context, v engine.Vanished) error {
	delete(w.known, v.Key)
	delete(w.listed, v.Key)
	return w.s.put(ctx, v, nil)
}

// synced ends the list: what an earlier watch has shown and this one has not is no more.
func (w *watcher) synced(ctx context.Context, at backend.Synced) error {
	revision := max(at.Revision, w.far)
	if err := w.s.put(ctx, engine.Relisted{Revision: revision}, nil); err != nil {
		return err
	}
	for _, k := range slices.SortedFunc(maps.Keys(w.known), resource.Key.Compare) {
		if w.listed[k] {
			continue
		}
		if err := w.gone(ctx, engine.Vanished{Key: k, UID: w.known[k]}); err != nil {
			return err
		}
	}
	w.listed = nil
	w.s.health.note("watch store", "", nil)
	if w.s.listing.begun(revision) > 1 {
		w.s.opener.reopen() // the store may be another by now
		w.s.counts.relisted.Add(1)
	}
	w.s.opener.storeListed()
	w.s.health.note("list", "", nil)
	return nil
}

// A listing says whether a watch runs that has shown everything there was.
type listing struct {
	mu    sync.Mutex
	count int           // of the lists that were completed
	at    uint64        // the revision of the last
	whole chan struct{} // closed while a watch runs that has listed everything
}

func newListing() *listing { return &listing{whole: make(chan struct{})} }

// begun says that a watch has listed everything. It returns how often that was so.
func (l *listing) begun(revision uint64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.whole)
	l.at = revision
	l.count++
	return l.count
}

// ended says that the watch no longer runs.
func (l *listing) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.whole:
		l.whole = make(chan struct{})
	default:
	}
}

func (l *listing) revision() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// wait returns once a watch runs that has listed everything, at once if one does.
func (l *listing) wait(ctx context.Context) error {
	l.mu.Lock()
	whole := l.whole
	l.mu.Unlock()
	select {
	case <-whole:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
