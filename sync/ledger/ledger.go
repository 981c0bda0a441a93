// Package ledger keeps dead letters: what one side of a link could not take in or hand
// over, why, and the message itself where there is one. They are on disk, in one bbolt
// file, so that a restart forgets none, and in memory, so that to read them never waits.
//
// A letter is a state, not an entry of a journal: there is one for each key and cause, and
// it goes when the cause does. What is kept for one peer is bounded, see MaxLetters and
// MaxBytes: a peer that sends nothing but nonsense fills no disk.
package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// What is kept for one peer at most. Beyond MaxLetters the oldest go; a letter beyond
// MaxBytes in all is kept without its event.
const (
	MaxLetters = 1000
	MaxBytes   = 16 << 20
)

// owner is the bucket that says whose the Ledger is. No peer has such a name.
const owner = "$owner"

// patience is how long Open waits for another process that has the file open.
const patience = time.Second

// A Ledger holds the dead letters of all links of one process. Its methods may be called
// concurrently.
type Ledger struct {
	db *bbolt.DB // nil keeps everything in memory only

	mu    sync.Mutex
	books map[string]*Book
}

// InMemory returns an empty Ledger that is lost with the process.
func InMemory() *Ledger { return &Ledger{books: map[string]*Book{}} }

// Open opens the Ledger in a file, which is made if need be, as is its folder. Only one
// process can have it open.
func Open(file string) (*Ledger, error) {
	fail := func(err error) (*Ledger, error) { return nil, fmt.Errorf("ledger: open %s: %w", file, err) }
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fail(err)
	}
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{Timeout: patience})
	if errors.Is(err, bolterrors.ErrTimeout) {
		err = errors.New("another process has it open")
	}
	if err != nil {
		return fail(err)
	}
	l := InMemory()
	l.db = db
	if err := l.load(); err != nil {
		return fail(errors.Join(err, db.Close()))
	}
	return l, nil
}

// load reads the whole file. A letter that cannot be read is of no use to anybody.
func (l *Ledger) load() error {
	return l.db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(peer []byte, bucket *bbolt.Bucket) error {
			if string(peer) == owner {
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

// Close closes the file.
func (l *Ledger) Close() error {
	if l.db == nil {
		return nil
	}
	if err := l.db.Close(); err != nil {
		return fmt.Errorf("ledger: close: %w", err)
	}
	return nil
}

// Book returns the letters of the link to a peer.
func (l *Ledger) Book(peer string) *Book {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.books[peer] == nil {
		l.books[peer] = &Book{db: l.db, peer: peer, letters: map[string]Letter{}}
	}
	return l.books[peer]
}

// Claim makes identity the owner, and returns who was before; "" if nobody was.
func (l *Ledger) Claim(identity string) (before string, err error) {
	if l.db == nil {
		return "", nil
	}
	err = l.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(owner))
		if err != nil {
			return err
		}
		before = string(b.Get([]byte(owner)))
		return b.Put([]byte(owner), []byte(identity))
	})
	if err != nil {
		return "", fmt.Errorf("ledger: claim for %s: %w", identity, err)
	}
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
	if l.db == nil {
		return nil
	}
	err := l.db.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte(peer)) == nil {
			return nil
		}
		return tx.DeleteBucket([]byte(peer))
	})
	if err != nil {
		return fmt.Errorf("ledger: forget %s: %w", peer, err)
	}
	return nil
}
