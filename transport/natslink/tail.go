package natslink

import (
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// Bounds of a tail.
const (
	tailRows  = 64
	tailBytes = 64 << 10
)

// A tail is the end of a log: what this process has put there, and the peer may not have yet. To have the
// server give back what it was given a moment ago costs more than to store it.
//
// Only what follows without a gap is in it: a log has one writer, so whoever has each place from one on up
// to the last has all that was put there since. It may be used by many goroutines, as rows are confirmed in
// any order.
type tail struct {
	mu    sync.Mutex
	epoch string
	rows  []row // by place, ascending
	bytes int
}

// add adds what was stored, of which the tail keeps what the server would give back.
func (t *tail) add(epoch string, r row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch != epoch {
		t.epoch, t.rows, t.bytes = epoch, nil, 0
	}
	at, known := slices.BinarySearchFunc(t.rows, r.seq, byPlace)
	if known {
		return // it was confirmed twice
	}
	t.rows = slices.Insert(t.rows, at, r)
	t.bytes += r.size()
	for len(t.rows) > tailRows || t.bytes > tailBytes {
		t.drop(1)
	}
}

// from returns the rows from a place on up to the end of a log, without those that were replaced since. ok is
// that all of them are known.
func (t *tail) from(seq uint64, end position) (rows []row, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, known := slices.BinarySearchFunc(t.rows, seq, byPlace)
	if !known || t.epoch != end.Epoch {
		return nil, false
	}
	last := map[string]uint64{}
	for i, r := range t.rows[at:] {
		if r.seq != seq+uint64(i) {
			return nil, false
		}
		last[r.tail] = r.seq
	}
	if t.rows[len(t.rows)-1].seq < end.Seq {
		return nil, false
	}
	for _, r := range t.rows[at:] {
		if last[r.tail] == r.seq {
			rows = append(rows, r)
		}
	}
	return rows, true
}

// had takes in that the peer has all up to a place.
func (t *tail) had(upto position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch != upto.Epoch {
		return
	}
	n, known := slices.BinarySearchFunc(t.rows, upto.Seq, byPlace)
	if known {
		n++
	}
	t.drop(n)
}

// drop drops the first n rows. It is called with the lock held.
func (t *tail) drop(n int) {
	for _, r := range t.rows[:n] {
		t.bytes -= r.size()
	}
	if t.rows = slices.Delete(t.rows, 0, n); len(t.rows) == 0 {
		t.rows = nil // most logs have nothing to say for most of the time
	}
}

func byPlace(r row, seq uint64) int {
	switch {
	case r.seq < seq:
		return -1
	case r.seq > seq:
		return 1
	}
	return 0
}

// kept returns those of the headers of a message that are not for the server.
func kept(all nats.Header) nats.Header {
	header := make(nats.Header, len(all))
	for k, values := range all {
		if len(values) > 0 && !strings.HasPrefix(k, "Nats-") {
			header[k] = values
		}
	}
	return header
}
