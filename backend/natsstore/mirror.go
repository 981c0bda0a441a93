package natsstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A mirror holds what the bucket is known to hold, and tells the watches.
type mirror struct {
	log  *zap.Logger
	feed backend.Feed

	mu      sync.Mutex
	entries map[string]entry // by the keys of the bucket, those of deletions and others included
	objects map[resource.Key]record
	seen    uint64        // the revision up to which all changes are in entries
	last    place         // of the newest change that was shown
	change  chan struct{} // closed at the next change
	ready   chan struct{} // closed once the bucket is listed
	listed  bool
}

// An entry is what is under one key of the bucket.
type entry struct {
	revision uint64
	deleted  bool // nothing is there any more, because somebody has deleted it
	bad      bool // it is there, and no object
}

// A place is where a change is in the history of a bucket.
type place struct {
	revision uint64
	at       time.Time
}

// A change is one entry of the history of a bucket.
type change struct {
	key string
	place
	value   []byte
	deleted bool // there is nothing under the key any more
	seen    bool // because somebody has deleted it, and not because of its age
}

func newMirror(log *zap.Logger) *mirror {
	return &mirror{
		log: log, entries: map[string]entry{}, objects: map[resource.Key]record{},
		change: make(chan struct{}), ready: make(chan struct{}),
	}
}

// get returns the record of k, or the zero record, and what is under its key.
func (m *mirror) get(k resource.Key, key string) (record, entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[k], m.entries[key]
}

// whole returns once the bucket is listed.
func (m *mirror) whole(ctx context.Context) error {
	for {
		m.mu.Lock()
		listed, ready := m.listed, m.ready
		m.mu.Unlock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if listed {
			return nil
		}
		select {
		case <-ready:
		case <-ctx.Done():
		}
	}
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

// watch begins a watch, once the bucket is listed.
func (m *mirror) watch(ctx context.Context, scope backend.Scope) (func(context.Context, func(backend.Event) error) error, error) {
	for {
		if err := m.whole(ctx); err != nil {
			return nil, err
		}
		if run := m.begin(scope); run != nil {
			return run, nil
		}
	}
}

func (m *mirror) begin(scope backend.Scope) func(context.Context, func(backend.Event) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.listed { // it has gone back in time since
		return nil
	}
	var objects []resource.Object
	for k, r := range m.objects {
		if scope.Holds(k.Namespace) {
			objects = append(objects, r.Object)
		}
	}
	slices.SortFunc(objects, func(a, b resource.Object) int { return a.Key.Compare(b.Key) })
	return m.feed.Watch(scope, objects, backend.Synced{Revision: m.seen})
}

// take takes in the next change of the history, if it is news, and calls also with the mirror
// locked.
func (m *mirror) take(c change, also func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(c)
	m.seen = max(m.seen, c.revision)
	also()
	m.changed()
}

// learn takes in a change out of turn: those before it may be still to come.
func (m *mirror) learn(c change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(c)
	m.changed()
}

// note takes in a change, if it is news. Call with the mirror locked.
func (m *mirror) note(c change) {
	if c.revision > m.last.revision {
		m.last = c.place
	}
	if before := m.entries[c.key]; before.revision < c.revision {
		m.entries[c.key] = m.show(before, c)
	}
}

// show tells the watches of a change, and returns what it leaves under its key. Call with
// the mirror locked.
func (m *mirror) show(before entry, c change) entry {
	now := entry{revision: c.revision, deleted: c.deleted && c.seen}
	k, err := decodeKey(c.key)
	if c.key == ownerKey {
		return now
	}
	if c.deleted {
		if err == nil {
			m.gone(k, c.seen)
		}
		return now
	}
	var r record
	if err == nil {
		r, err = decode(k, c.revision, c.value)
	}
	if err != nil {
		m.log.Warn("what is under a key of the bucket is no object, and is left alone",
			zap.String("key", c.key), zap.Uint64("revision", c.revision), zap.Error(err))
		m.gone(k, false)
		now.bad = true
		return now
	}
	m.put(r, before)
	return now
}

// put shows an object. One of another UID is in its place; what is known of its deletion
// the one that came after it says, where the deletion itself was not seen.
func (m *mirror) put(r record, before entry) {
	if cur, ok := m.objects[r.Key]; ok && cur.UID != r.UID {
		m.gone(r.Key, r.after > before.revision)
	}
	m.objects[r.Key] = r
	m.feed.Put(r.Object)
}

// gone shows that the object k, if there is one, exists no more.
func (m *mirror) gone(k resource.Key, seen bool) {
	if cur, ok := m.objects[k]; ok {
		delete(m.objects, k)
		m.feed.Gone(backend.Gone{Key: k, UID: cur.UID, Seen: seen})
	}
}

// changed wakes whoever waits. Call with the mirror locked.
func (m *mirror) changed() {
	close(m.change)
	m.change = make(chan struct{})
}

// rewind forgets everything: the bucket is another one now, or of an earlier state. Watches
// that run end, and others wait for the list.
func (m *mirror) rewind(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listed {
		m.log.Warn("the bucket has gone back in time, or is another one", zap.String("why", why), zap.Uint64("was", m.seen))
		m.feed.End(fmt.Errorf("natsstore: %s: %w", why, backend.ErrRewound))
		m.ready = make(chan struct{})
	}
	clear(m.entries)
	clear(m.objects)
	m.seen, m.last, m.listed = 0, place{}, false
	m.changed()
}

// settle ends a list: keys are all that the bucket has, and revision is how far it has come.
// shown is up to where everything was taken: of keys that are known there may be later values.
// What is missing has vanished while nobody saw it; it returns how many objects.
func (m *mirror) settle(keys map[string]bool, revision, shown uint64) (vanished int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.objects)
	for key, e := range m.entries {
		if keys[key] || e.revision > revision {
			continue
		}
		delete(m.entries, key)
		if k, err := decodeKey(key); err == nil {
			m.gone(k, false)
		}
	}
	m.seen = max(m.seen, shown)
	if !m.listed {
		m.listed = true
		close(m.ready)
	}
	m.changed()
	return before - len(m.objects)
}

// lacking returns which of keys the mirror does not know.
func (m *mirror) lacking(keys map[string]bool) (out []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range keys {
		if _, ok := m.entries[key]; !ok {
			out = append(out, key)
		}
	}
	return out
}

// count returns how many keys the bucket must have, and up to which revision that is known.
func (m *mirror) count() (keys, revision uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(len(m.entries)), m.seen
}

// reach notes that there is nothing up to a revision that was not shown.
func (m *mirror) reach(revision uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = max(m.seen, revision)
	m.changed()
}

// newest returns the place of the newest change that was shown.
func (m *mirror) newest() place {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// resume returns the revision from which on changes are news; 0 if all are.
func (m *mirror) resume() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.listed {
		return 0
	}
	return m.seen + 1
}
