// Package ledger keeps dead letters: what one side of a link could not take in or hand
// over, why, and the message itself where there is one. They are on disk, in one bbolt
// file, so that a restart forgets none, and in memory, so that to read them never waits.
// What a user has decided about objects is kept beside them, see Set, and what a session must
// not forget of its peer, see Book.Remember.
//
// A letter is a state, not an entry of a journal: there is one for each key and cause, and
// it goes when the cause does. What is kept for one peer is bounded, see MaxLetters and
// MaxBytes: a peer that sends nothing but nonsense fills no disk.
//
// Nothing depends on the file: one that cannot be written to is tried again with the next
// letter, one that was taken away is made anew, and one that is damaged is put aside.
package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.etcd.io/bbolt"
)

// What is kept for one peer at most. Beyond MaxLetters the oldest go; a letter beyond
// MaxBytes in all is kept without its event.
const (
	MaxLetters = 1000
	MaxBytes   = 16 << 20
)

// owner is the bucket that says whose the Ledger is. No peer has such a name.
const owner = "$owner"

// A Ledger holds the dead letters of all links of one process. Its methods may be called
// concurrently.
type Ledger struct {
	disk     sync.Mutex // held while the file is used
	file     *file      // nil keeps everything in memory only
	identity string     // of the owner

	mu    sync.Mutex
	books map[string]*Book
	sets  map[string]*Set
}

// InMemory returns an empty Ledger that is lost with the process.
func InMemory() *Ledger { return &Ledger{books: map[string]*Book{}, sets: map[string]*Set{}} }

// Open opens the Ledger in a file, which is made if need be, as is its folder. It is ErrInUse
// if another process has it open. Any other error is about the disk, and comes beside a Ledger
// that works in memory until the file does, or about what was found damaged and put aside.
func Open(path string) (*Ledger, error) {
	l := InMemory()
	l.file = &file{path: path}
	aside, err := l.file.open()
	switch {
	case errors.Is(err, ErrInUse):
		return nil, fmt.Errorf("ledger: open %s: %w", path, err)
	case err != nil:
		return l, fmt.Errorf("ledger: open %s: %w", path, err)
	}
	if err := l.load(); err != nil {
		return l, fmt.Errorf("ledger: read %s: %w", path, err)
	}
	if aside != "" {
		return l, fmt.Errorf("ledger: %s was damaged: it is %s now, and begins anew", path, aside)
	}
	return l, nil
}

// load reads the whole file. A letter that cannot be read is of no use to anybody.
func (l *Ledger) load() error {
	return l.file.db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(peer []byte, bucket *bbolt.Bucket) error {
			if string(peer) == owner {
				l.identity = string(bucket.Get([]byte(owner)))
				return nil
			}
			if string(peer) == memories {
				return l.readMemories(bucket)
			}
			if l.readSet(string(peer), bucket) {
				return nil
			}
			b := l.Book(string(peer))
			return bucket.ForEach(func(_, text []byte) error {
				var letter Letter
				if json.Unmarshal(text, &letter) == nil {
					b.letters[letter.ID] = letter
					b.bytes += len(letter.Event)
				}
				return nil
			})
		})
	})
}

// update changes the file. If it is not there, or another one, all that is known is written
// to it first.
func (l *Ledger) update(change func(*bbolt.Tx) error) error {
	if l.file == nil {
		return nil
	}
	l.disk.Lock()
	defer l.disk.Unlock()
	if l.file.db != nil && l.file.same() {
		if err := l.file.update(change); !damaged(err) {
			return err
		}
		l.file.abandon()
	}
	_ = l.file.close() // it is nobody's any more
	if _, err := l.file.open(); err != nil {
		return err
	}
	return l.file.update(func(tx *bbolt.Tx) error {
		return errors.Join(l.write(tx), change(tx))
	})
}

// write writes all that is known.
func (l *Ledger) write(tx *bbolt.Tx) error {
	if l.identity != "" {
		if err := putOwner(tx, l.identity); err != nil {
			return err
		}
	}
	l.mu.Lock()
	books, sets := slices.Collect(maps.Values(l.books)), slices.Collect(maps.Values(l.sets))
	l.mu.Unlock()
	for _, s := range sets {
		if err := s.write(tx); err != nil {
			return err
		}
	}
	for _, b := range books {
		if err := putMemory(tx, b.peer, b.Remembered()); err != nil {
			return err
		}
		for _, letter := range b.snapshot() {
			if err := putLetter(tx, b.peer, letter); err != nil {
				return err
			}
		}
	}
	return nil
}

func putOwner(tx *bbolt.Tx, identity string) error {
	b, err := tx.CreateBucketIfNotExists([]byte(owner))
	if err != nil {
		return err
	}
	return b.Put([]byte(owner), []byte(identity))
}

func putLetter(tx *bbolt.Tx, peer string, letter Letter) error {
	bucket, err := tx.CreateBucketIfNotExists([]byte(peer))
	if err != nil {
		return err
	}
	text, err := json.Marshal(letter)
	if err != nil {
		return err
	}
	return bucket.Put([]byte(letter.ID), text)
}

// Close closes the file.
func (l *Ledger) Close() error {
	if l.file == nil {
		return nil
	}
	l.disk.Lock()
	defer l.disk.Unlock()
	if err := l.file.close(); err != nil {
		return fmt.Errorf("ledger: close: %w", err)
	}
	return nil
}

// Book returns the letters of the link to a peer.
func (l *Ledger) Book(peer string) *Book {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.books[peer] == nil {
		l.books[peer] = &Book{ledger: l, peer: peer, letters: map[string]Letter{}}
	}
	return l.books[peer]
}

// Claim makes identity the owner, and returns who was before; "" if nobody was.
func (l *Ledger) Claim(identity string) (before string, err error) {
	if l.file == nil {
		return "", nil
	}
	err = l.update(func(tx *bbolt.Tx) error { return putOwner(tx, identity) })
	if err != nil {
		return "", fmt.Errorf("ledger: claim for %s: %w", identity, err)
	}
	l.disk.Lock()
	defer l.disk.Unlock()
	before, l.identity = l.identity, identity
	return before, nil
}

// Peers returns the peers of which there are letters, sorted.
func (l *Ledger) Peers() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, peer := range slices.Sorted(maps.Keys(l.books)) {
		if l.books[peer].Count() > 0 {
			out = append(out, peer)
		}
	}
	return out
}

// Forget removes all letters of the link to a peer. A Book of it that is still in use
// becomes one in memory.
func (l *Ledger) Forget(peer string) error {
	l.mu.Lock()
	b := l.books[peer]
	delete(l.books, peer)
	l.mu.Unlock()
	if b != nil {
		b.detach()
	}
	err := l.update(func(tx *bbolt.Tx) error {
		if err := putMemory(tx, peer, nil); err != nil || tx.Bucket([]byte(peer)) == nil {
			return err
		}
		return tx.DeleteBucket([]byte(peer))
	})
	if err != nil {
		return fmt.Errorf("ledger: forget %s: %w", peer, err)
	}
	return nil
}
