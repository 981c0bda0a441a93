package natslink

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"

	"github.com/argocd-fabric/argocd-agent/transport/boltfile"
)

// Of the file of a copy: its buckets, its version, how long opening it waits for another
// process, and a bound of the headers of a row: those that a peer may say, and ours.
var (
	metaBucket = []byte("meta")
	rowsBucket = []byte("rows") // the rows, by place
	keysBucket = []byte("keys") // the place of the last row of each key, by tail
)

const (
	copyVersion = "1"
	copyInUse   = time.Second
	copyHeaders = 2 * maxRowHeaders
)

func openBolt(path string) (db *bbolt.DB, err error) {
	err = guarded(func() error {
		db, err = boltfile.Open(path, copyInUse)
		return err
	})
	return db, err
}

// claim begins a new copy, or returns why the one there is cannot be used; then nothing is
// changed. Tombstones from before a time are forgotten.
func claim(db *bbolt.DB, agent string, before time.Time) (holding, error) {
	begun := false
	err := view(db, func(tx *bbolt.Tx) error {
		first, _ := tx.Cursor().First()
		begun = first != nil
		return nil
	})
	if err == nil && !begun {
		err = begin(db, agent)
	}
	var h holding
	var old []row
	if err == nil {
		err = view(db, func(tx *bbolt.Tx) (err error) {
			h, old, err = count(tx, agent, before)
			return err
		})
	}
	if err == nil && len(old) > 0 {
		err = update(db, func(tx *bbolt.Tx) error { return bury(tx, old) })
	}
	return h, err
}

func begin(db *bbolt.DB, agent string) error {
	return update(db, func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucket(metaBucket)
		for _, name := range [][]byte{rowsBucket, keysBucket} {
			if err == nil {
				_, err = tx.CreateBucket(name)
			}
		}
		for k, v := range map[string]string{"version": copyVersion, "agent": agent, "epoch": rand.Text()} {
			if err == nil {
				err = meta.Put([]byte(k), []byte(v))
			}
		}
		return err
	})
}

// count returns what the copy of an agent holds, and tombstones from before a time beside it.
func count(tx *bbolt.Tx, agent string, before time.Time) (h holding, old []row, err error) {
	meta, rows := tx.Bucket(metaBucket), tx.Bucket(rowsBucket)
	if meta == nil || rows == nil || tx.Bucket(keysBucket) == nil {
		return h, nil, errors.New("it is another kind of file")
	}
	for k, v := range map[string]string{"version": copyVersion, "agent": agent} {
		if found := meta.Get([]byte(k)); string(found) != v {
			return h, nil, fmt.Errorf("it is of %s %q, not %q", k, found, v)
		}
	}
	h.epoch, h.last = string(meta.Get([]byte("epoch"))), rows.Sequence()
	err = rows.ForEach(func(k, v []byte) error {
		r, err := readStored(k, v)
		if err != nil {
			return err
		}
		if since := binary.BigEndian.Uint64(v); since != 0 && since < uint64(before.Unix()) {
			old = append(old, row{seq: r.seq, tail: r.tail})
			return nil
		}
		h.rows++
		h.bytes += int64(len(v))
		return nil
	})
	return h, old, err
}

func bury(tx *bbolt.Tx, old []row) error {
	for _, r := range old {
		err := tx.Bucket(rowsBucket).Delete(placeKey(r.seq))
		if err == nil {
			err = tx.Bucket(keysBucket).Delete([]byte(r.tail))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put puts r behind the last row, in the place of the one of its key.
func (h *holding) put(tx *bbolt.Tx, r row, now time.Time) error {
	rows, keys := tx.Bucket(rowsBucket), tx.Bucket(keysBucket)
	rows.FillPercent = 0.9 // they are put one behind the other
	tail := []byte(r.tail)
	if at := keys.Get(tail); at != nil {
		seq := binary.BigEndian.Uint64(at)
		h.rows--
		h.bytes -= int64(len(rows.Get(placeKey(seq))))
		if err := rows.Delete(placeKey(seq)); err != nil {
			return err
		}
	}
	h.last++
	r.seq = h.last
	text := appendStored(r, now)
	h.rows++
	h.bytes += int64(len(text))
	return errors.Join(rows.Put(placeKey(r.seq), text), keys.Put(tail, placeKey(r.seq)), rows.SetSequence(r.seq))
}

func placeKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// appendStored returns a row as it is stored: behind eight bytes, which say when it has come, in
// seconds since 1970, if it is a tombstone, and else are zero.
func appendStored(r row, now time.Time) []byte {
	since := uint64(0)
	if r.header.Get(digestHeader) == "" {
		since = uint64(now.Unix())
	}
	return appendRow(binary.BigEndian.AppendUint64(make([]byte, 0, 32+r.size()), since), r)
}

// readStored reads a row from its place, and what is stored there. It keeps v.
func readStored(k, v []byte) (row, error) {
	if len(k) != 8 || len(v) < 8 {
		return row{}, errors.New("a row is cut off")
	}
	f := frame{rest: v[8:]}
	r := f.row(copyHeaders)
	if f.bad || len(f.rest) > 0 || r.seq != binary.BigEndian.Uint64(k) {
		return row{}, fmt.Errorf("row %d is damaged", binary.BigEndian.Uint64(k))
	}
	return r, nil
}

func view(db *bbolt.DB, f func(*bbolt.Tx) error) error {
	return guarded(func() error { return db.View(f) })
}

func update(db *bbolt.DB, f func(*bbolt.Tx) error) error {
	return guarded(func() error { return db.Update(f) })
}

// guarded calls f, and turns a panic into an error, also the fault of a page that is not there:
// bbolt maps the file into memory, and does not expect it to hold nonsense.
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
