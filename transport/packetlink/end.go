// Package packetlink makes a transport.Link of packets. It is for transports whose two ends
// can hand each other packets, in order, while they are connected, and which have nothing
// else to make a Link of: files, pipes, sockets, streams of other protocols.
//
// What is left to the adapter is what only it can know: how packets cross (it takes them from
// Next of one Connection, and gives them to Take of the peer's), and when there is a connection
// to a process of the peer and when there is none any more (Begin and End). A log that is to
// outlive the process has a Keeper, such as File; a copy that is to, a Copy. A Hub and a Dialer
// open Ends.
//
// # What crosses
//
// The log of an End is in memory. With every connection each side says what its copy of the
// peer's log is: how many rows, and one sum. If that is what the log is, nothing more crosses.
// If not, the sums of 64 buckets and then the hashes of the rows of those that differ show
// what the copy lacks, and that is sent. A log that has just been begun anew, as after a
// restart, is given time to be filled: its writer puts in what it has by Send, and what the
// copy has already is not sent.
//
// Of each key one value is under way at a time: the next goes once the peer has acknowledged
// it, and is then the last that there is. So a change that is overtaken by others costs
// nothing, and nothing is sent twice over one connection. Acknowledgements go before values.
//
// The next value of a key crosses as a change of the last that has crossed the connection, if
// that is shorter: see appendDelta.
//
// What was received is acknowledged when it is in the copy, in memory: whether a Copy has it on
// its disk shows in the next connection, in the sum.
package packetlink

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

// Defaults of Limits.
const (
	DefaultRows  = 1 << 18
	DefaultBytes = 256 << 20
)

// MaxRows is the most that Limits may allow: the marks of a copy must cross in one packet.
const MaxRows = DefaultRows

// Limits bound either direction of a Link, so that nobody fills anybody's memory. A log of this
// side that is full refuses more by transport.ErrFull. A peer whose log is larger is refused what
// is too much by the same error, and keeps what it had. A copy may have half as many rows more,
// and twice the bytes: those that the log has no more. As many bytes may wait for a reader that
// is behind.
type Limits struct {
	Rows  int   // live keys; 0 is DefaultRows
	Bytes int64 // of their messages; 0 is DefaultBytes
}

// Check returns l with defaults filled in, and an error if something is wrong.
func (l Limits) Check() (Limits, error) {
	if l.Rows == 0 {
		l.Rows = DefaultRows
	}
	if l.Bytes == 0 {
		l.Bytes = DefaultBytes
	}
	switch {
	case l.Rows < 0 || l.Rows > MaxRows:
		return l, fmt.Errorf("a table of %d rows: there may be 1 to %d", l.Rows, MaxRows)
	case l.Bytes < transport.MaxMessage:
		return l, fmt.Errorf("a table of %d bytes does not hold the largest message, of %d", l.Bytes, transport.MaxMessage)
	}
	return l, nil
}

// ofCopy returns the bounds of a copy.
func (l Limits) ofCopy() Limits { return Limits{Rows: l.Rows + l.Rows/2, Bytes: 2 * l.Bytes} }

// Config is what an End is made of. Keeper may be nil: then the log is gone with the End. So
// may Copy: then the copy is.
type Config struct {
	Local, Peer string // the names of the two sides
	Limits      Limits
	Keeper      Keeper // closed with the End
	Copy        Copy   // closed with the End
}

// A Keeper keeps the log of one End, as records, whose content is the End's. It is called by
// one goroutine at a time.
type Keeper interface {
	// Read returns all records, in order: none where no log is. The last of them may be
	// missing if the process was killed while it was appended.
	Read() ([][]byte, error)
	// Replace puts a log of these records into the place of the one there is.
	Replace(records [][]byte) error
	// Append adds a record at the end.
	Append(record []byte) error
	// Lost reports whether the log that was written was taken away.
	Lost() bool
	// Close gives up the log, which stays.
	Close() error
}

// An End is one end of a Link. It implements transport.Link.
type End struct {
	config       Config
	inbox        *transport.Inbox
	streams      *mux.Mux
	tableReady   chan struct{} // holds one element once there may be something to send
	streamsReady chan struct{}

	mu      sync.Mutex
	closed  bool
	log     *log
	reading *reading
	table   *Table // of the connection; nil while there is none
	at      uint64 // how many values were received
}

// Open returns an End, of what its Keeper and its Copy have kept if it has them.
func Open(c Config) (*End, error) {
	var err error
	if c.Limits, err = c.Limits.Check(); err != nil {
		return nil, fmt.Errorf("packetlink: %w", err)
	}
	e := &End{
		config: c, inbox: transport.NewInbox(),
		tableReady: make(chan struct{}, 1), streamsReady: make(chan struct{}, 1),
		log: newLog(rand.Text(), c.Limits), reading: newReading(c.Copy, c.Limits.ofCopy()),
	}
	e.streams = mux.New(mux.Config{Local: c.Local, Peer: c.Peer, Wake: func() { signal(e.streamsReady) }})
	err = e.reading.restore(func(m transport.Message) {
		e.at++
		e.inbox.Put(transport.Delivery{Event: transport.Value, Message: m, At: e.at})
	})
	if err != nil {
		return nil, fmt.Errorf("packetlink: read copy of %s: %w: %w", c.Peer, transport.ErrStore, err)
	}
	e.inbox.Replayed()
	if c.Keeper == nil {
		return e, nil
	}
	records, err := c.Keeper.Read()
	if err == nil && len(records) > 0 {
		e.log.epoch = string(records[0])
		err = e.restore(records[1:])
	}
	if err == nil {
		err = e.keep()
	}
	if err != nil {
		return nil, fmt.Errorf("packetlink: open log to %s: %w", c.Peer, err)
	}
	return e, nil
}

func (e *End) restore(records [][]byte) error {
	for _, r := range records {
		m, _, err := cutMessage(r)
		if err != nil {
			return err
		}
		e.log.put(m.Key, m.Digest, r)
	}
	return nil
}

// keep writes the log anew.
func (e *End) keep() error {
	records := [][]byte{[]byte(e.log.epoch)}
	for _, r := range e.log.rows {
		records = append(records, r.record)
	}
	return e.config.Keeper.Replace(records)
}

// Check begins another log if the one there was is lost. Send does so by itself.
func (e *End) Check() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.config.Keeper == nil || !e.config.Keeper.Lost() {
		return nil
	}
	e.log.lose(rand.Text())
	e.inbox.LogLost()
	if err := e.keep(); err != nil {
		return fmt.Errorf("packetlink: begin another log to %s: %w", e.config.Peer, err)
	}
	return nil
}

// crowded reports whether too much waits to be received.
func (e *End) crowded() bool { return e.inbox.Size() > e.config.Limits.ofCopy().Bytes }

// Full reports whether the peer was refused a message that there is still no room for.
func (e *End) Full() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reading.lacks > 0 || e.crowded()
}

// TableReady holds an element once Next of the current Connection's Table may have something
// new.
func (e *End) TableReady() <-chan struct{} { return e.tableReady }

// StreamsReady is the same for its Streams.
func (e *End) StreamsReady() <-chan struct{} { return e.streamsReady }

// Wake has both hold one, for who has taken an element that was meant for the next connection.
func (e *End) Wake() {
	signal(e.tableReady)
	signal(e.streamsReady)
}

func signal(ready chan struct{}) {
	select {
	case ready <- struct{}{}:
	default:
	}
}

// Peer implements transport.Link.
func (e *End) Peer() string { return e.config.Peer }

// Streams implements transport.Link.
func (e *End) Streams() transport.Streams { return e.streams }

// usable says why the End cannot be used now.
func (e *End) usable(ctx context.Context) error {
	if e.closed {
		return transport.ErrClosed
	}
	return context.Cause(ctx)
}

// Log implements transport.Link.
func (e *End) Log(ctx context.Context) (transport.Log, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.usable(ctx)
	shown := transport.Log{Epoch: e.log.epoch, Keeps: e.config.Keeper != nil}
	if err == nil && shown.Keeps {
		shown.Rows, err = e.log.shown()
	}
	if err != nil {
		return transport.Log{}, fmt.Errorf("packetlink: read log to %s: %w", e.config.Peer, err)
	}
	return shown, nil
}

// Send implements transport.Link.
func (e *End) Send(ctx context.Context, m transport.Message) error {
	err := e.Check()
	if err == nil {
		err = e.put(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("packetlink: send %.80q to %s: %w", m.Key, e.config.Peer, err)
	}
	signal(e.tableReady)
	return nil
}

func (e *End) put(ctx context.Context, m transport.Message) error {
	if err := errors.Join(m.Fits(), checkKey(m.Key)); err != nil {
		return err
	}
	record, err := appendMessage(nil, m)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch err := e.usable(ctx); {
	case err != nil:
		return err
	case !e.log.fits(m.Key, record):
		return transport.ErrFull
	}
	if e.config.Keeper != nil {
		if err := e.config.Keeper.Append(record); err != nil {
			return err
		}
	}
	e.log.put(m.Key, m.Digest, record)
	return nil
}

// Receive implements transport.Link.
func (e *End) Receive(ctx context.Context) (transport.Delivery, error) {
	d, err := e.inbox.Receive(ctx)
	if err != nil {
		return d, fmt.Errorf("packetlink: receive from %s: %w", e.config.Peer, err)
	}
	return d, nil
}

// Close implements transport.Link. The connection, if any, carries nothing any more.
func (e *End) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed, e.table = true, nil
	e.inbox.Close()
	e.streams.Close()
	var err error
	if e.config.Keeper != nil {
		err = e.config.Keeper.Close()
	}
	if e.config.Copy != nil {
		err = errors.Join(err, e.config.Copy.Close())
	}
	if err != nil {
		return fmt.Errorf("packetlink: close link to %s: %w", e.config.Peer, err)
	}
	return nil
}

// Begin says that there is a connection to a process of the peer, which begins one too. The
// one before, if any, has ended. Once the End is closed a Connection carries nothing.
func (e *End) Begin(p transport.Presence) *Connection {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &Connection{Table: &Table{end: e}, Streams: e.streams.Begin()}
	if e.closed {
		return c
	}
	e.log.begin()
	r := e.reading
	mine := account{log: e.log.epoch, of: r.of, salt: r.salt, count: r.tally.count, sum: r.tally.sum()}
	c.Table.owed = mine.append([]byte{frameAccount})
	e.table = c.Table
	e.inbox.There(&p)
	signal(e.tableReady)
	return c
}

// End says that c has ended, for the reason why. It does nothing if another one has begun
// since.
func (e *End) End(c *Connection, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.table == nil || e.table != c.Table {
		return
	}
	e.table = nil
	e.streams.End(why)
	e.inbox.There(nil)
}
