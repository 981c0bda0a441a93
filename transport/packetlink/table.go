package packetlink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

// A Table is the part of a Connection that the two tables cross, both ways. A packet of it is a
// sequence of frames, each behind a byte that says which. What is short goes first: an account
// or an acknowledgement does not wait for what the log has to send.
type Table struct {
	end *End

	// The End's lock guards the rest.
	owed  []byte // frames that the peer is waiting for
	taken uint64 // messages that were taken in
	told  uint64 // those that the peer knows of
	heard uint64 // of those sent, how many the peer has taken in
	once  uint8  // which of the frames that come once have come
	sent  bases  // of what was sent
	got   bases  // of what was taken in
}

// The frames. Of a log's reader:
const (
	frameAccount = 'A' // an account
	frameTaken   = 'a' // how many messages were taken in, of all on this connection
	frameSums    = 'S' // of all buckets
	frameMarks   = 'M' // of the buckets that were asked for
)

// And of its writer:
const (
	frameAskSums  = '?'
	frameAskMarks = '#' // of these buckets
	frameMessage  = 'm'
	frameChange   = 'd' // the key, and what makes the message of the last one of that key
)

// singular are those that come once at most, so that nobody is made to answer again and again.
const singular = "ASM?#"

// Next appends to b the next packet for the peer, and nothing if there is none now. It is of
// about mux.MaxPacket bytes at most, or of one Message, or of the marks of a copy.
func (t *Table) Next(b []byte, now time.Time) []byte {
	e := t.end
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.table != t {
		return b
	}
	end := len(b) + mux.MaxPacket
	b = append(b, t.owed...)
	t.owed = nil
	if t.told < t.taken {
		t.told = t.taken
		b = binary.AppendUvarint(append(b, frameTaken), t.taken)
	}
	e.log.due(now)
	switch e.log.stage {
	case summing:
		e.log.stage = listing
		b = append(b, frameAskSums)
	case choosing:
		e.log.stage = marking
		b = binary.BigEndian.AppendUint64(append(b, frameAskMarks), e.log.asked)
	case known:
		b = t.rows(b, end)
	}
	return b
}

func (t *Table) rows(b []byte, end int) []byte {
	for len(b) < end {
		key, record, ok := t.end.log.next()
		if !ok {
			break
		}
		b = appendRecord(b, key, record, t.sent.get(key))
		t.sent.put(key, record)
	}
	return b
}

// appendRecord appends a record: as a change of the one before, if there is one and that is
// shorter.
func appendRecord(b []byte, key string, record, before []byte) []byte {
	if before != nil {
		change := appendDelta(nil, before, record)
		if len(key)+len(change) < len(record) {
			b = appendText(append(b, frameChange), key)
			return appendText(b, change)
		}
	}
	return append(append(b, frameMessage), record...)
}

// Due returns when Next may have something although nothing wakes it, zero if that is never.
func (t *Table) Due(now time.Time) time.Time {
	t.end.mu.Lock()
	defer t.end.mu.Unlock()
	if t.end.table != t {
		return time.Time{}
	}
	return t.end.log.due(now)
}

// Take takes in the next packet of the peer, and keeps it. If it is against the rules it
// returns why: then the connection is of no use any more.
func (t *Table) Take(packet []byte, now time.Time) error {
	e := t.end
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(packet) > 0 && e.table == t {
		kind := packet[0]
		rest, err := t.take(kind, packet[1:], now)
		if err != nil {
			return fmt.Errorf("packetlink: read %q of %s: %w", kind, e.config.Peer, err)
		}
		packet = rest
	}
	signal(e.tableReady)
	return nil
}

// take takes in one frame, and returns what is behind it.
func (t *Table) take(kind byte, b []byte, now time.Time) (rest []byte, err error) {
	if err := t.first(kind); err != nil {
		return nil, err
	}
	e := t.end
	switch kind {
	case frameAccount:
		var a account
		if a, rest, err = cutAccount(b); err == nil {
			e.reading.of = a.log
			e.log.hear(a)
		}
	case frameTaken:
		var n uint64
		if n, rest, err = cutNumber(b); err == nil && (n < t.heard || !e.log.landed(n-t.heard, now)) {
			err = fmt.Errorf("it says that it has taken in %d messages", n)
		}
		t.heard = n
	case frameAskSums:
		t.owed, rest = appendSums(append(t.owed, frameSums), e.reading.tally.of), b
	case frameSums:
		var of [buckets]uint64
		if of, rest, err = cutSums(b); err == nil {
			err = e.log.answered(listing, func() { e.log.sums(of) })
		}
	case frameAskMarks:
		if len(b) < 8 {
			return nil, errCut
		}
		all := e.reading.list(binary.BigEndian.Uint64(b))
		t.owed, rest = appendMarks(append(t.owed, frameMarks), all), b[8:]
	case frameMarks:
		var all []mark
		if all, rest, err = cutMarks(b); err == nil {
			err = e.log.answered(marking, func() { e.log.marks(all) })
		}
	case frameMessage:
		var size int
		if size, err = t.message(b, false); err == nil {
			rest = b[size:]
		}
	case frameChange:
		rest, err = t.change(b)
	default:
		err = errors.New("no such frame is known")
	}
	return rest, err
}

// first returns an error if a frame that comes once has come before.
func (t *Table) first(kind byte) error {
	for i := range singular {
		if singular[i] != kind {
			continue
		}
		if t.once&(1<<i) != 0 {
			return errors.New("it comes again")
		}
		t.once |= 1 << i
	}
	return nil
}

// answered calls f if that is what the log waits for.
func (l *log) answered(in stage, f func()) error {
	if l.stage != in {
		return errors.New("nobody has asked for it")
	}
	f()
	return nil
}

// change takes in a message that is said as a change of the one before of its key.
func (t *Table) change(b []byte) (rest []byte, err error) {
	key, b, err := cutText(b)
	if err != nil {
		return nil, err
	}
	change, rest, err := cutText(b)
	if err != nil {
		return nil, err
	}
	before := t.got.get(string(key))
	if before == nil {
		return nil, errDelta
	}
	size := 0
	record, err := applyDelta(before, change, mux.MaxPacket+2*transport.MaxMessage)
	if err == nil {
		size, err = t.message(record, true)
	}
	if err == nil && size < len(record) {
		err = errDelta
	}
	return rest, err
}

// message takes in the message at the beginning of b, and returns how long it is. Its record is kept:
// as it stands if b is ours, and else as a copy, since the packet that b is of may be much longer.
func (t *Table) message(b []byte, ours bool) (size int, err error) {
	e := t.end
	m, rest, err := cutMessage(b)
	if err == nil {
		err = errors.Join(checkKey(m.Key), m.Fits())
	}
	if err == nil && e.crowded() {
		err = fmt.Errorf("%w: %d bytes wait to be received", transport.ErrFull, e.inbox.Size())
	}
	record := b[:len(b)-len(rest)]
	if !ours {
		record = bytes.Clone(record)
	}
	if err == nil {
		err = e.reading.take(m, record)
	}
	if err != nil {
		return 0, err
	}
	t.got.put(m.Key, record)
	t.taken++
	e.at++
	e.inbox.Put(transport.Delivery{Event: transport.Value, Message: m, At: e.at})
	return len(record), nil
}
