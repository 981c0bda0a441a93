package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// A Set is a set of texts that a user has put there, each with a note, and that is there
// again after a restart. Its methods may be called concurrently.
//
// What cannot be written to disk is kept in memory all the same; the error says so. A file
// that is lost takes the Set with it: it is for what is safe to forget.
type Set struct {
	ledger *Ledger
	name   string

	mu  sync.Mutex
	has map[string]string // notes
}

// setPrefix begins the names of the buckets of Sets. No peer has such a name.
const setPrefix = "$set/"

// Set returns the Set of a name.
func (l *Ledger) Set(name string) *Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sets[name] == nil {
		l.sets[name] = &Set{ledger: l, name: name, has: map[string]string{}}
	}
	return l.sets[name]
}

// Has reports whether a text is in the Set.
func (s *Set) Has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.has[text]
	return has
}

// Note returns what was noted of a text.
func (s *Set) Note(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has[text]
}

// All returns all texts, sorted.
func (s *Set) All() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.has))
}

// Add puts texts into the Set, with what is noted of each. Of those that are in it the first
// note stays.
func (s *Set) Add(notes map[string]string) error {
	return s.change(func() {
		for text, note := range notes {
			if _, has := s.has[text]; !has {
				s.has[text] = note
			}
		}
	})
}

// Remove takes texts out of the Set.
func (s *Set) Remove(texts ...string) error {
	return s.change(func() {
		for _, t := range texts {
			delete(s.has, t)
		}
	})
}

// Clear takes all texts out of the Set.
func (s *Set) Clear() error { return s.change(func() { clear(s.has) }) }

// change changes the Set in memory and then on disk, where nothing is written if nothing
// has changed and it holds nothing.
func (s *Set) change(f func()) error {
	s.mu.Lock()
	before := len(s.has)
	f()
	idle := before+len(s.has) == 0
	s.mu.Unlock()
	if idle {
		return nil
	}
	if err := s.ledger.update(s.write); err != nil {
		return fmt.Errorf("ledger: keep %s: %w", s.name, err)
	}
	return nil
}

// write makes the bucket hold what the Set does.
func (s *Set) write(tx *bbolt.Tx) error {
	name := []byte(setPrefix + s.name)
	if err := tx.DeleteBucket(name); err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
		return err
	}
	b, err := tx.CreateBucket(name)
	for _, text := range s.All() {
		if err == nil {
			err = b.Put([]byte(text), []byte(s.Note(text)))
		}
	}
	return err
}

// readSet reads a bucket if it is that of a Set, and reports whether it is.
func (l *Ledger) readSet(name string, bucket *bbolt.Bucket) bool {
	name, is := strings.CutPrefix(name, setPrefix)
	if !is {
		return false
	}
	s := l.Set(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := bucket.Cursor()
	for text, note := c.First(); text != nil; text, note = c.Next() {
		s.has[string(text)] = string(note)
	}
	return true
}
