package natslink

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A memory is a log that does not outlive its process. It implements logShelf.
type memory struct {
	streamConfig
	troubles *troubles
	epoch    string

	mu    sync.Mutex
	rows  []remembered   // by place, ascending; some have been replaced
	at    map[string]int // where in rows the last of each key is, by tail
	last  uint64         // the highest place that was given
	bytes int64          // of those that were not replaced
}

// A remembered row of a log. One that was replaced has a place only.
type remembered struct {
	row
	since time.Time
}

func (r remembered) replaced() bool { return r.tail == "" }

func newMemory(c streamConfig, t *troubles) *memory {
	return &memory{streamConfig: c, troubles: t, epoch: rand.Text(), at: map[string]int{}}
}

// end implements shelf.
func (l *memory) end() position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return position{l.epoch, l.last}
}

// read implements shelf.
func (l *memory) read(_ context.Context, seq uint64) (batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, _ := slices.BinarySearchFunc(l.rows, seq, func(r remembered, seq uint64) int {
		return cmp.Compare(r.seq, seq)
	})
	var b batch
	size := 0
	for _, r := range l.rows[from:] {
		switch {
		case r.replaced():
			continue
		case len(b.rows) == batchRows || size > batchBytes:
			b.more = true
			return b, nil
		}
		b.rows = append(b.rows, r.row)
		size += r.size()
	}
	return b, nil
}

// put implements logShelf.
func (l *memory) put(_ context.Context, _ string, m *nats.Msg) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	r := row{tail: strings.TrimPrefix(m.Subject, l.prefix), header: m.Header, data: m.Data}
	quota := origin{l.agent, l.part + quotaTrouble}
	if err := l.fits(r, now); err != nil {
		l.troubles.begin(quota, err)
		return err
	}
	l.troubles.end(quota)
	l.forget(r.tail)
	l.last++
	r.seq = l.last
	l.at[r.tail] = len(l.rows)
	l.rows = append(l.rows, remembered{r, now})
	l.bytes += int64(r.size())
	if len(l.rows) > 2*len(l.at)+batchRows {
		l.compact(now)
	}
	return nil
}

// fits returns ErrFull if there is no room for r.
func (l *memory) fits(r row, now time.Time) error {
	if l.lacks(r) == nil {
		return nil
	}
	l.compact(now)
	return l.lacks(r)
}

func (l *memory) lacks(r row) error {
	rows, bytes := len(l.at), l.bytes+int64(r.size())
	if i, known := l.at[r.tail]; known {
		bytes -= int64(l.rows[i].size())
	} else {
		rows++
	}
	switch {
	case bytes > l.maxBytes:
		return fmt.Errorf("%w: %d bytes, and there may be %d", transport.ErrFull, bytes, l.maxBytes)
	case int64(rows) > l.maxRows:
		return fmt.Errorf("%w: %d keys, and there may be %d", transport.ErrFull, rows, l.maxRows)
	}
	return nil
}

// forget strikes off the last row of a key, if there is one.
func (l *memory) forget(tail string) {
	i, known := l.at[tail]
	if !known {
		return
	}
	delete(l.at, tail)
	l.bytes -= int64(l.rows[i].size())
	l.rows[i] = remembered{row: row{seq: l.rows[i].seq}}
}

// compact gives up what was replaced, and tombstones that are old.
func (l *memory) compact(now time.Time) {
	for _, r := range l.rows {
		if !r.replaced() && r.header.Get(digestHeader) == "" && now.Sub(r.since) > l.age {
			l.forget(r.tail)
		}
	}
	l.rows = slices.DeleteFunc(l.rows, remembered.replaced)
	for i, r := range l.rows {
		l.at[r.tail] = i
	}
}

// held implements logShelf: nothing outlives the process.
func (l *memory) held(context.Context, func(row) error) (transport.Log, error) {
	return transport.Log{Epoch: l.epoch}, nil
}

// had implements logShelf: what a key has had last is kept.
func (l *memory) had(position) {}

// check implements logShelf: it is lost with its process only.
func (l *memory) check(context.Context) (lost bool, err error) { return false, nil }

// usable implements shelf.
func (l *memory) usable() error { return nil }

// kicked implements shelf: never.
func (l *memory) kicked() <-chan struct{} { return nil }

// state implements shelf.
func (l *memory) state(context.Context) (StreamState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return StreamState{
		Stream: l.name, Epoch: l.epoch, Messages: uint64(len(l.at)), Bytes: uint64(l.bytes), LastSeq: l.last, Quota: l.maxBytes,
	}, nil
}
