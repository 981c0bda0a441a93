package packetlink

import (
	"crypto/rand"
	"fmt"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A Record is a Message as a Copy keeps it.
type Record struct {
	Key       string
	Tombstone bool   // it may be forgotten once it is old
	Text      []byte // the whole Message; its form is the End's
}

// A Copy keeps what one End has received, for the next one. It is called by one goroutine at
// a time.
type Copy interface {
	// Read calls f with each record that is kept, until f returns an error. f may keep it.
	Read(f func(Record) error) error
	// Put keeps a record in the place of the one of its key. It does not wait for a disk:
	// what is lost on the way comes again once the peer is there.
	Put(r Record)
	// Close gives up the copy, which stays.
	Close() error
}

// A reading is what an End knows of its copy of the peer's log.
type reading struct {
	limits Limits
	lacks  int               // the size of the largest message that there was no room for; 0 once there is
	salt   string            // of the marks; another one for every End
	of     string            // the epoch of the log that was heard last; "" if none was
	marks  map[uint64]filled // of the rows that are counted, by key
	tally  tally
	bytes  int64 // of their records
	kept   Copy  // nil keeps nothing
}

// A filled place of the copy.
type filled struct {
	value uint64 // of the mark
	size  int
}

func newReading(kept Copy, l Limits) *reading {
	return &reading{limits: l, salt: rand.Text(), marks: map[uint64]filled{}, kept: kept}
}

// restore reads what is kept.
func (r *reading) restore(f func(transport.Message)) error {
	if r.kept == nil {
		return nil
	}
	return r.kept.Read(func(record Record) error {
		m, _, err := cutMessage(record.Text)
		if err != nil {
			return fmt.Errorf("message of %.80q: %w", record.Key, err)
		}
		r.count(m, markOf(r.salt, m.Key, m.Digest), len(record.Text))
		f(m)
		return nil
	})
}

// take takes a message in. An error says that there is no room for it: then nothing is changed.
func (r *reading) take(m transport.Message, record []byte) error {
	is := markOf(r.salt, m.Key, m.Digest)
	if err := r.fits(m, is, len(record)); err != nil {
		r.lacks = max(r.lacks, len(record))
		return err
	}
	r.count(m, is, len(record))
	if r.lacks > 0 && len(r.marks) < r.limits.Rows && r.bytes+int64(r.lacks) <= r.limits.Bytes {
		r.lacks = 0
	}
	if r.kept != nil {
		r.kept.Put(Record{m.Key, m.Tombstone(), record})
	}
	return nil
}

// fits returns an error unless there is room for a message, of which is is the mark.
func (r *reading) fits(m transport.Message, is mark, size int) error {
	if !counted(m.Key, m.Digest) {
		return nil
	}
	was, known := r.marks[is.key]
	rows, bytes := len(r.marks), r.bytes+int64(size-was.size)
	if !known {
		rows++
	}
	switch {
	case rows > r.limits.Rows && !known:
		return fmt.Errorf("%w: its table is too large: %d rows, and there may be %d", transport.ErrFull, rows, r.limits.Rows)
	case bytes > r.limits.Bytes && size > was.size:
		return fmt.Errorf("%w: its table is too large: %d bytes, and there may be %d", transport.ErrFull, bytes, r.limits.Bytes)
	}
	return nil
}

func (r *reading) count(m transport.Message, is mark, size int) {
	if was, ok := r.marks[is.key]; ok {
		r.tally.remove(mark{is.key, was.value})
		r.bytes -= int64(was.size)
		delete(r.marks, is.key)
	}
	if counted(m.Key, m.Digest) {
		r.tally.add(is)
		r.bytes += int64(size)
		r.marks[is.key] = filled{is.value, size}
	}
}

// list returns the marks in some buckets.
func (r *reading) list(in uint64) (out []mark) {
	for key, f := range r.marks {
		if m := (mark{key, f.value}); in&(1<<m.bucket()) != 0 {
			out = append(out, m)
		}
	}
	return out
}
