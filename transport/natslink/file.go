package natslink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.etcd.io/bbolt"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// copyFile is the name of the file in the directory of an agent without a server of its own.
const copyFile = "nats-copy.db"

// A file is a copy in a file of bbolt. What is put there is on disk when extend returns. It
// implements copyShelf.
type file struct {
	streamConfig
	path     string
	disk     space
	troubles *troubles

	opening sync.RWMutex // held for writing while it is opened, or closed
	db      *bbolt.DB    // nil if it could not be opened
	home    os.FileInfo  // of the file that was opened

	mu   sync.Mutex
	held holding
	bad  error // of the last attempt to put something there
}

// A holding is what a file holds.
type holding struct {
	epoch string
	last  uint64 // the highest place that was given
	rows  int64
	bytes int64 // of the rows
}

// openFile opens the copy, and makes it if need be. What is no such copy is ErrStore.
func openFile(c streamConfig, t *troubles) (*file, error) {
	f := &file{streamConfig: c, path: filepath.Join(c.dir, copyFile), troubles: t}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("natslink: copy %s: %w: %w", f.path, transport.ErrStore, err)
	}
	return f, nil
}

// open opens the file. It is called with opening held.
func (f *file) open() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	db, err := openBolt(f.path)
	if err != nil {
		return err
	}
	held, err := claim(db, f.agent, time.Now().Add(-f.age))
	var home os.FileInfo
	if err == nil {
		home, err = os.Stat(f.path)
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	f.db, f.home = db, home
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = held
	return nil
}

// close gives the file up, which stays.
func (f *file) close() error {
	f.opening.Lock()
	defer f.opening.Unlock()
	if f.db == nil {
		return nil
	}
	db := f.db
	f.db = nil
	return db.Close()
}

func (f *file) holding() holding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

// end implements shelf.
func (f *file) end() position {
	h := f.holding()
	return position{h.epoch, h.last}
}

// read implements shelf.
func (f *file) read(_ context.Context, seq uint64) (batch, error) {
	f.opening.RLock()
	defer f.opening.RUnlock()
	if f.db == nil {
		return batch{}, errNoStream
	}
	var b batch
	size := 0
	err := view(f.db, func(tx *bbolt.Tx) error {
		c := tx.Bucket(rowsBucket).Cursor()
		for k, v := c.Seek(placeKey(seq)); k != nil; k, v = c.Next() {
			if len(b.rows) == batchRows || size > batchBytes {
				b.more = true
				return nil
			}
			r, err := readStored(k, bytes.Clone(v))
			if err != nil {
				return err
			}
			b.rows = append(b.rows, r)
			size += len(v)
		}
		return nil
	})
	if err != nil {
		return batch{}, fmt.Errorf("natslink: read %s from %d: %w", f.path, seq, err)
	}
	return b, nil
}

// extend implements copyShelf.
func (f *file) extend(_ context.Context, all []*nats.Msg, stored func(i int, seq uint64) error) error {
	first, err := f.write(all, time.Now())
	f.note(err)
	if err != nil {
		return fmt.Errorf("natslink: store in %s: %w", f.path, err)
	}
	for i := range all {
		if err := stored(i, first+uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// errQuota says that a table is larger than it may be.
var errQuota = fmt.Errorf("%w: the table is too large", transport.ErrFull)

// write writes all, or nothing, and returns the place of the first.
func (f *file) write(all []*nats.Msg, now time.Time) (first uint64, err error) {
	f.opening.RLock()
	defer f.opening.RUnlock()
	size := 0
	for _, m := range all {
		size += m.Size()
	}
	switch err := f.disk.room(f.dir, size, now); {
	case err != nil:
		return 0, err
	case f.db == nil:
		return 0, errNoStream
	case len(all) == 0:
		return 0, nil
	}
	next := f.holding()
	first = next.last + 1
	err = update(f.db, func(tx *bbolt.Tx) error {
		for _, m := range all {
			r := row{tail: strings.TrimPrefix(m.Subject, f.prefix), header: m.Header, data: m.Data}
			if err := next.put(tx, r, now); err != nil {
				return err
			}
		}
		if next.rows > f.maxRows || next.bytes > f.maxBytes {
			return fmt.Errorf("%w: %d rows of %d bytes", errQuota, next.rows, next.bytes)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = next
	return first, nil
}

// note notes what has become of an attempt to put something into the file.
func (f *file) note(err error) {
	f.mu.Lock()
	f.bad = err
	f.mu.Unlock()
	var now origin
	switch {
	case err == nil:
	case errors.Is(err, errQuota):
		now = origin{f.agent, CopyQuota}
	case errors.Is(err, transport.ErrFull):
		now = origin{what: StoreFull}
	default:
		now = origin{what: storeTrouble(err)}
	}
	for _, o := range []origin{{f.agent, CopyQuota}, {what: StoreFull}, {what: StoreReadOnly}, {what: StoreFailing}} {
		if o == now {
			f.troubles.begin(o, err)
		} else {
			f.troubles.end(o)
		}
	}
}

// whole implements copyShelf.
func (f *file) whole(context.Context) (bool, error) {
	f.opening.RLock()
	defer f.opening.RUnlock()
	return f.there()
}

// there reports whether the file is still where it was opened.
func (f *file) there() (bool, error) {
	found, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), f.db == nil:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("natslink: look at copy: %w", err)
	}
	return os.SameFile(f.home, found), nil
}

// recover implements copyShelf.
func (f *file) recover(context.Context) (lost bool, err error) {
	f.opening.Lock()
	defer f.opening.Unlock()
	if there, err := f.there(); there || err != nil {
		return false, err
	}
	if f.db != nil {
		_ = f.db.Close() // nobody would find what is in it
		f.db = nil
	}
	if err := f.open(); err != nil {
		f.note(err)
		return false, fmt.Errorf("natslink: begin copy %s anew: %w", f.path, err)
	}
	return true, nil
}

// usable implements shelf.
func (f *file) usable() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bad
}

// kicked implements shelf: never. That the file is gone is seen now and then.
func (f *file) kicked() <-chan struct{} { return nil }

// state implements shelf.
func (f *file) state(context.Context) (StreamState, error) {
	h := f.holding()
	return StreamState{
		Stream: f.name, Epoch: h.epoch, Messages: uint64(h.rows), Bytes: uint64(h.bytes), LastSeq: h.last, Quota: f.maxBytes,
	}, nil
}

// DiscardCopy removes what a Client has kept in its store directory, which no process may use.
func DiscardCopy(dir string) error {
	if err := os.Remove(filepath.Join(dir, copyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("natslink: remove what is kept: %w", err)
	}
	return nil
}
