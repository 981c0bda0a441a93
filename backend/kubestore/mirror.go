package kubestore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A mirror holds what the API server is known to hold, and tells the watches. It keeps
// the parts of an object and nothing else of it.
type mirror struct {
	side resource.Side
	log  *zap.Logger
	feed backend.Feed

	mu     sync.Mutex
	kinds  map[resource.Kind]*table
	change chan struct{} // closed at the next change
	ready  chan struct{} // closed once every kind is listed
}

// A table holds the objects of one kind.
type table struct {
	listed   bool
	revision uint64 // the resourceVersion up to which all changes are in records
	records  map[string]map[string]record
}

func newMirror(side resource.Side, log *zap.Logger, kinds []resource.Kind) *mirror {
	m := &mirror{
		side: side, log: log, kinds: map[resource.Kind]*table{},
		change: make(chan struct{}), ready: make(chan struct{}),
	}
	for _, k := range kinds {
		m.kinds[k] = &table{records: map[string]map[string]record{}}
	}
	return m
}

// get returns the record of k, or the zero record.
func (m *mirror) get(k resource.Key) record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kinds[k.Kind].records[k.Namespace][k.Name]
}

// until returns once cond, which is called with the mirror locked, is true.
func (m *mirror) until(ctx context.Context, cond func() bool) error {
	for {
		m.mu.Lock()
		done, change := cond(), m.change
		m.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reached returns once the mirror holds all changes of a kind up to a version.
func (m *mirror) reached(ctx context.Context, kind resource.Kind, version string) error {
	v, err := number(version)
	if err != nil {
		return err
	}
	return m.until(ctx, func() bool { return m.kinds[kind].revision >= v })
}

// watch begins a watch. All kinds must be listed.
func (m *mirror) watch(scope backend.Scope) func(context.Context, func(backend.Event) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var objects []resource.Object
	var synced backend.Synced
	for _, t := range m.kinds {
		synced.Revision = max(synced.Revision, t.revision)
		for _, ns := range slices.Compact(slices.Sorted(slices.Values(scope.Namespaces))) {
			objects = list(objects, t.records[ns])
		}
		if len(scope.Namespaces) > 0 {
			continue
		}
		for _, records := range t.records {
			objects = list(objects, records)
		}
	}
	slices.SortFunc(objects, func(a, b resource.Object) int { return a.Key.Compare(b.Key) })
	return m.feed.Watch(scope, objects, synced)
}

func list(objects []resource.Object, records map[string]record) []resource.Object {
	for _, r := range records {
		objects = append(objects, r.Object)
	}
	return objects
}

// changed says that the table of a kind was changed. Call with the mirror locked.
func (m *mirror) changed(t *table, revision uint64) {
	t.revision = revision
	close(m.change)
	m.change = make(chan struct{})
}

// put takes in a record, if it is news. Call with the mirror locked.
func (m *mirror) put(t *table, r record) {
	records := t.records[r.Key.Namespace]
	if records == nil {
		records = map[string]record{}
		t.records[r.Key.Namespace] = records
	}
	cur := records[r.Key.Name]
	if cur.Version == r.Version && cur.UID == r.UID {
		return
	}
	if cur.UID != "" && cur.UID != r.UID {
		m.feed.Gone(backend.Gone{Key: r.Key, UID: cur.UID})
	}
	records[r.Key.Name] = r
	m.feed.Put(r.Object)
}

// drop takes a record out. Call with the mirror locked.
func (m *mirror) drop(t *table, g backend.Gone) {
	if records := t.records[g.Key.Namespace]; records != nil {
		delete(records, g.Key.Name)
		if len(records) == 0 {
			delete(t.records, g.Key.Namespace)
		}
	}
	m.feed.Gone(g)
}

// A sink is where a reflector puts the objects of one kind.
type sink struct {
	*mirror
	kind resource.Kind
}

var _ interface {
	cache.ReflectorStore
	cache.ReflectorBookmarkStore
} = sink{}

// take locks the mirror, and calls f with what obj is.
func (s sink) take(obj any, f func(t *table, r record, revision uint64)) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("kubestore: %T is no object", obj)
	}
	revision, err := number(u.GetResourceVersion())
	if err != nil {
		return err
	}
	r := layouts[s.kind].read(s.kind, s.side, u)
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.kinds[s.kind], r, revision)
	return nil
}

// Add implements cache.ReflectorStore.
func (s sink) Add(obj any) error {
	return s.take(obj, func(t *table, r record, revision uint64) {
		s.put(t, r)
		s.changed(t, revision)
	})
}

// Update implements cache.ReflectorStore.
func (s sink) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore: the API server has said so.
func (s sink) Delete(obj any) error {
	return s.take(obj, func(t *table, r record, revision uint64) {
		s.drop(t, backend.Gone{Key: r.Key, UID: r.UID, Seen: true})
		s.changed(t, revision)
	})
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (s sink) Bookmark(version string) error {
	revision, err := number(version)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed(s.kinds[s.kind], revision)
	return nil
}

// Replace implements cache.ReflectorStore: objects is all that there is. An object that
// is missing was deleted while nobody watched, or is not shown to us any more.
func (s sink) Replace(objects []any, version string) error {
	revision, err := number(version)
	if err != nil {
		return err
	}
	all := map[resource.Key]record{}
	for _, obj := range objects {
		if err := s.take(obj, func(_ *table, r record, _ uint64) { all[r.Key] = r }); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.kinds[s.kind]
	if revision < t.revision {
		s.log.Warn("the cluster has gone back in time", zap.String("kind", string(s.kind)),
			zap.Uint64("was", t.revision), zap.Uint64("is", revision))
		// First of all: what is missing now was not deleted, and no watch may show it as gone.
		s.feed.End(fmt.Errorf("kubestore: revision %d after %d: %w", revision, t.revision, backend.ErrRewound))
	}
	for _, r := range t.missing(all) {
		s.drop(t, backend.Gone{Key: r.Key, UID: r.UID})
	}
	for _, r := range all {
		s.put(t, r)
	}
	s.changed(t, revision)
	s.listed(t)
	return nil
}

// listed notes that a kind is listed. Call with the mirror locked.
func (s sink) listed(t *table) {
	if t.listed {
		return
	}
	t.listed = true
	for _, other := range s.kinds {
		if !other.listed {
			return
		}
	}
	close(s.ready)
}

// Resync implements cache.ReflectorStore.
func (s sink) Resync() error { return nil }

// missing returns the records that are not among all.
func (t *table) missing(all map[resource.Key]record) []record {
	var out []record
	for _, records := range t.records {
		for _, r := range records {
			if _, ok := all[r.Key]; !ok {
				out = append(out, r)
			}
		}
	}
	return out
}

// number reads a resourceVersion. The API promises that they are numbers that grow.
func number(version string) (uint64, error) {
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("kubestore: resourceVersion %q is no number", version)
	}
	return v, nil
}
