package ledger

import (
	"fmt"
	"slices"

	"go.etcd.io/bbolt"
)

// memories is the bucket of what is remembered of peers. No peer has such a name.
const memories = "$memory"

// Remember keeps a text beside the letters, in place of the one before; an empty one is none.
// It is for what a session must know of its peer again after a restart, whatever has become of
// the link. What cannot be written to disk is remembered in memory all the same.
func (b *Book) Remember(text []byte) error {
	b.mu.Lock()
	b.memory = slices.Clone(text)
	ledger := b.ledger
	b.mu.Unlock()
	err := ledger.update(func(tx *bbolt.Tx) error { return putMemory(tx, b.peer, b.Remembered()) })
	if err != nil {
		return fmt.Errorf("ledger: remember of %s: %w", b.peer, err)
	}
	return nil
}

// Remembered returns the text that was kept last.
func (b *Book) Remembered() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.memory
}

func putMemory(tx *bbolt.Tx, peer string, text []byte) error {
	if len(text) == 0 {
		if bucket := tx.Bucket([]byte(memories)); bucket != nil {
			return bucket.Delete([]byte(peer))
		}
		return nil
	}
	bucket, err := tx.CreateBucketIfNotExists([]byte(memories))
	if err != nil {
		return err
	}
	return bucket.Put([]byte(peer), text)
}

// readMemories reads the bucket of all peers.
func (l *Ledger) readMemories(bucket *bbolt.Bucket) error {
	return bucket.ForEach(func(peer, text []byte) error {
		l.Book(string(peer)).memory = slices.Clone(text)
		return nil
	})
}
