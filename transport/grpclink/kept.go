package grpclink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/boltfile"
	"github.com/argocd-fabric/argocd-agent/transport/packetlink"
)

// Of the file of a kept copy: its buckets and its version.
const (
	metaBucket  = "meta"
	rowsBucket  = "rows"
	keptVersion = "1"
	inUse       = time.Second // how long opening waits for another process
	retryWrite  = time.Second
)

// A kept copy is what an agent has heard, in one bbolt file. It implements packetlink.Copy.
// Records are written by one goroutine, as many at a time as have come meanwhile; those that
// cannot be written are tried again for as long as it is open.
//
// A record is stored under its key, behind eight bytes: when it came, in seconds since 1970,
// if it is a tombstone, and else zero.
type kept struct {
	db      *bbolt.DB
	trouble *trouble
	stop    chan struct{}
	over    sync.WaitGroup
	once    sync.Once
	err     error // of Close
	swept   bool  // by who writes

	mu    sync.Mutex
	waits map[string]packetlink.Record
	wake  chan struct{}
}

// openKept opens the copy of an agent. A file that is no such copy is transport.ErrStore.
func openKept(path, agent string, t *trouble) (*kept, error) {
	fail := func(err error) (*kept, error) {
		return nil, fmt.Errorf("grpclink: open copy %s: %w: %w", path, transport.ErrStore, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(err)
	}
	db, err := openBolt(path)
	if err != nil {
		return fail(err)
	}
	if err := guarded(func() error { return claim(db, agent) }); err != nil {
		return fail(errors.Join(err, db.Close()))
	}
	k := &kept{db: db, trouble: t, stop: make(chan struct{}), waits: map[string]packetlink.Record{}, wake: make(chan struct{}, 1)}
	k.over.Go(k.run)
	return k, nil
}

func openBolt(path string) (db *bbolt.DB, err error) {
	err = guarded(func() error {
		db, err = boltfile.Open(path, inUse)
		return err
	})
	return db, err
}

// claim begins a new copy, or returns why the one there is cannot be used; then nothing is
// changed.
func claim(db *bbolt.DB, agent string) error {
	is := map[string]string{"version": keptVersion, "agent": agent}
	begun := false
	err := db.View(func(tx *bbolt.Tx) error {
		first, _ := tx.Cursor().First()
		if begun = first != nil; !begun {
			return nil
		}
		meta := tx.Bucket([]byte(metaBucket))
		if meta == nil {
			return errors.New("it is another kind of file")
		}
		for k, v := range is {
			if found := meta.Get([]byte(k)); string(found) != v {
				return fmt.Errorf("it is of %s %q, not %q", k, found, v)
			}
		}
		if tx.Bucket([]byte(rowsBucket)) == nil {
			return errors.New("it has no rows")
		}
		return nil
	})
	if err != nil || begun {
		return err
	}
	return db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucket([]byte(metaBucket))
		if err == nil {
			_, err = tx.CreateBucket([]byte(rowsBucket))
		}
		for k, v := range is {
			if err == nil {
				err = meta.Put([]byte(k), []byte(v))
			}
		}
		return err
	})
}

// Read implements packetlink.Copy.
func (k *kept) Read(f func(packetlink.Record) error) error {
	now := time.Now()
	return guarded(func() error {
		return k.db.View(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(rowsBucket)).ForEach(func(key, text []byte) error {
				if len(text) < 8 {
					return fmt.Errorf("the record of %.80q is cut off", key)
				}
				since := binary.BigEndian.Uint64(text)
				if isOld(since, now) {
					return nil
				}
				return f(packetlink.Record{Key: string(key), Tombstone: since != 0, Text: append([]byte(nil), text[8:]...)})
			})
		})
	})
}

// Put implements packetlink.Copy.
func (k *kept) Put(r packetlink.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waits[r.Key] = r
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Close implements packetlink.Copy. What waits is written.
func (k *kept) Close() error {
	k.once.Do(func() {
		close(k.stop)
		k.over.Wait()
		k.trouble.end(time.Now())
		k.err = k.db.Close()
	})
	return k.err
}

func (k *kept) run() {
	for {
		again := (<-chan time.Time)(nil)
		if err := k.write(time.Now()); err != nil {
			k.trouble.begin(err, time.Now())
			again = time.After(retryWrite)
		} else {
			k.trouble.end(time.Now())
		}
		select {
		case <-k.wake:
		case <-again:
		case <-k.stop:
			_ = k.write(time.Now()) // if it fails, the next process hears it again
			return
		}
	}
}

// write writes what waits, all of it or nothing.
func (k *kept) write(now time.Time) error {
	k.mu.Lock()
	all := k.waits
	k.waits = map[string]packetlink.Record{}
	k.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	err := guarded(func() error {
		return k.db.Update(func(tx *bbolt.Tx) error {
			rows := tx.Bucket([]byte(rowsBucket))
			if err := k.sweep(rows, now); err != nil {
				return err
			}
			for _, r := range all {
				if err := rows.Put([]byte(r.Key), stored(r, now)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	k.swept = k.swept || err == nil
	if err == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, r := range all {
		if _, newer := k.waits[key]; !newer {
			k.waits[key] = r
		}
	}
	return fmt.Errorf("grpclink: write copy: %w", err)
}

// sweep removes old tombstones, once for each process.
func (k *kept) sweep(rows *bbolt.Bucket, now time.Time) error {
	var old [][]byte
	if !k.swept {
		_ = rows.ForEach(func(key, text []byte) error { // which fails only if this does
			if len(text) >= 8 && isOld(binary.BigEndian.Uint64(text), now) {
				old = append(old, key)
			}
			return nil
		})
	}
	for _, key := range old {
		if err := rows.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// isOld reports whether a tombstone has come too long ago to be kept.
func isOld(since uint64, now time.Time) bool {
	return since != 0 && since < uint64(now.Add(-packetlink.TombstoneAge).Unix())
}

func stored(r packetlink.Record, now time.Time) []byte {
	since := uint64(0)
	if r.Tombstone {
		since = uint64(now.Unix())
	}
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(r.Text)), since), r.Text...)
}

// guarded calls f, and turns a panic into an error, also the fault of a page that is not
// there: bbolt maps the file into memory, and does not expect it to hold nonsense.
func guarded(f func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			err = fmt.Errorf("it is damaged: %v", r)
		}
	}()
	return f()
}

// A trouble is that a copy cannot be written, for as long as it lasts. It is logged when it
// begins, and when it has ended.
type trouble struct {
	log *zap.Logger

	mu  sync.Mutex
	now []transport.Trouble
}

func (t *trouble) begin(err error, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.now) > 0 {
		now = t.now[0].Since
	} else {
		t.log.Error("trouble with the store: copy", zap.Error(err),
			zap.String("advice", "make room in --state-dir, and have it writable for this program's user: until then what the principal says is in memory only"))
	}
	t.now = []transport.Trouble{{What: "copy", Err: err, Since: now}}
}

func (t *trouble) end(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.now) > 0 {
		t.log.Info("trouble with the store has ended: copy", zap.Duration("after", now.Sub(t.now[0].Since)))
	}
	t.now = nil
}

func (t *trouble) list() []transport.Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]transport.Trouble(nil), t.now...)
}
