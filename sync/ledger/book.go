package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.etcd.io/bbolt"
)

// A Book holds the dead letters of one link. Its methods may be called concurrently.
//
// What cannot be written to disk is kept in memory all the same; the error says so.
type Book struct {
	peer string

	mu      sync.Mutex
	db      *bbolt.DB
	letters map[string]Letter
	bytes   int // of their events
	put     uint64
}

// Put keeps a letter. If there is one of its key and cause it takes its place; when it
// was seen first is remembered, and how often another one came. It reports whether this
// one is news.
func (b *Book) Put(l Letter) (news bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.ID = idOf(b.peer, l.Key, l.Cause)
	before, known := b.letters[l.ID]
	if known {
		l.First, l.Count = before.First, before.Count
	} else {
		l.First = l.Last
	}
	if news = !known || before.Reason != l.Reason; news {
		l.Count++
		b.put++
	}
	b.bytes -= len(before.Event)
	if b.bytes+len(l.Event) > MaxBytes {
		l.Event = nil
	}
	b.bytes += len(l.Event)
	b.letters[l.ID] = l
	changes := map[string]*Letter{l.ID: &l}
	if len(b.letters) > MaxLetters {
		oldest := b.sorted()[0]
		b.take(oldest.ID)
		changes[oldest.ID] = nil
	}
	return news, b.write(changes)
}

// Of returns the letters of a key.
func (b *Book) Of(key string) (out []Letter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, cause := range Causes() {
		if l, ok := b.letters[idOf(b.peer, key, cause)]; ok {
			out = append(out, l)
		}
	}
	return out
}

// Remove removes the letter with an id, and reports whether there was one.
func (b *Book) Remove(id string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.letters[id]; !ok {
		return false, nil
	}
	b.take(id)
	return true, b.write(map[string]*Letter{id: nil})
}

// Get returns the letter with an id, and whether there is one.
func (b *Book) Get(id string) (Letter, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.letters[id]
	return l, ok
}

// All returns all letters, the one that was seen last at the end.
func (b *Book) All() []Letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sorted()
}

// Count returns how many letters there are.
func (b *Book) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.letters)
}

// Written returns how many letters were put since the process began, those that took the
// place of another one included.
func (b *Book) Written() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.put
}

func (b *Book) sorted() []Letter {
	return slices.SortedFunc(maps.Values(b.letters), func(x, y Letter) int {
		return cmp.Or(x.Last.Compare(y.Last), cmp.Compare(x.ID, y.ID))
	})
}

// take removes a letter from memory.
func (b *Book) take(id string) {
	b.bytes -= len(b.letters[id].Event)
	delete(b.letters, id)
}

func (b *Book) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.db, b.letters, b.bytes = nil, map[string]Letter{}, 0
}

// write puts letters on disk, or removes those that are nil.
func (b *Book) write(changes map[string]*Letter) error {
	if b.db == nil {
		return nil
	}
	err := b.db.Update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte(b.peer))
		if err != nil {
			return err
		}
		for id, l := range changes {
			if l == nil {
				err = bucket.Delete([]byte(id))
			} else {
				err = put(bucket, *l)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ledger: keep letters of %s: %w", b.peer, err)
	}
	return nil
}

func put(bucket *bbolt.Bucket, l Letter) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return bucket.Put([]byte(l.ID), text)
}
