package ledger

import (
	"cmp"
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
	ledger  *Ledger
	letters map[string]Letter
	bytes   int // of their events
	memory  []byte
	put     uint64
}

// Put keeps a letter. If there is one of its key and cause it takes its place; when it
// was seen first is remembered, and how often another one came. It reports whether this
// one is news.
func (b *Book) Put(l Letter) (news bool, err error) {
	news, changed := b.keep(l)
	return news, b.write(changed)
}

// keep keeps a letter in memory, and returns the ids of those that have changed.
func (b *Book) keep(l Letter) (news bool, changed []string) {
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
	changed = append(changed, l.ID)
	if len(b.letters) > MaxLetters {
		oldest := b.sorted()[0]
		b.take(oldest.ID)
		changed = append(changed, oldest.ID)
	}
	return news, changed
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
	_, there := b.letters[id]
	if there {
		b.take(id)
	}
	b.mu.Unlock()
	if !there {
		return false, nil
	}
	return true, b.write([]string{id})
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
	b.ledger, b.letters, b.bytes, b.memory = InMemory(), map[string]Letter{}, 0, nil
}

// snapshot returns all letters, while some may be changed.
func (b *Book) snapshot() []Letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.letters))
}

// write makes the disk hold of some letters what memory does.
func (b *Book) write(ids []string) error {
	b.mu.Lock()
	ledger := b.ledger
	b.mu.Unlock()
	err := ledger.update(func(tx *bbolt.Tx) error {
		for _, id := range ids {
			if l, ok := b.Get(id); ok {
				if err := putLetter(tx, b.peer, l); err != nil {
					return err
				}
			} else if bucket := tx.Bucket([]byte(b.peer)); bucket != nil {
				if err := bucket.Delete([]byte(id)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ledger: keep letters of %s: %w", b.peer, err)
	}
	return nil
}
