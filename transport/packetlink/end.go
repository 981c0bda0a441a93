// Package packetlink makes a transport.Link of packets. It is for transports whose two ends
// can hand each other packets, in order, while they are connected, and which have nothing
// else to make a Link of: files, pipes, sockets, streams of other protocols.
//
// What is left to the adapter is what only it can know: how packets cross (it takes them from
// Next of one Connection, and gives them to Take of the peer's), and when there is a connection
// to a process of the peer and when there is none any more (Begin and End). A log that is to
// outlive the process has a Keeper, such as File. A Hub and a Dialer open Ends.
//
// The table of an End is in memory. All of it crosses with every connection, then whatever
// changes; no copy is kept, and nothing that was received comes again by itself.
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

// Config is what an End is made of. Keeper may be nil: then the log is gone with the End.
type Config struct {
	Local, Peer string // the names of the two sides
	Keeper      Keeper // closed with the End
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
	config  Config
	inbox   *transport.Inbox
	streams *mux.Mux
	ready   chan struct{} // holds one element once there may be something to send

	mu     sync.Mutex
	closed bool
	epoch  string
	table  map[string]transport.Message // the last of each key, tombstones too
	unsent keys
	conn   *Connection // nil while there is none
	at     uint64      // how many values were received
}

// Open returns an End, of what its Keeper has kept if it has one.
func Open(c Config) (*End, error) {
	e := &End{config: c, inbox: transport.NewInbox(), ready: make(chan struct{}, 1), epoch: rand.Text(), table: map[string]transport.Message{}}
	e.streams = mux.New(mux.Config{Local: c.Local, Peer: c.Peer, Wake: e.signal})
	e.inbox.Replayed() // no copy is kept
	if c.Keeper == nil {
		return e, nil
	}
	records, err := c.Keeper.Read()
	if err == nil && len(records) > 0 {
		e.epoch, err = string(records[0]), e.restore(records[1:])
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
		e.table[m.Key] = m
	}
	return nil
}

// keep writes the log anew.
func (e *End) keep() error {
	records := [][]byte{[]byte(e.epoch)}
	for _, m := range e.table {
		r, err := appendMessage(nil, m)
		if err != nil {
			return err
		}
		records = append(records, r)
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
	e.epoch, e.table, e.unsent = rand.Text(), map[string]transport.Message{}, keys{}
	e.inbox.LogLost()
	if err := e.keep(); err != nil {
		return fmt.Errorf("packetlink: begin another log to %s: %w", e.config.Peer, err)
	}
	return nil
}

// Ready holds an element once Next of the current Connection may have something new.
func (e *End) Ready() <-chan struct{} { return e.ready }

func (e *End) signal() {
	select {
	case e.ready <- struct{}{}:
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
	if err := e.usable(ctx); err != nil {
		return transport.Log{}, fmt.Errorf("packetlink: read log to %s: %w", e.config.Peer, err)
	}
	log := transport.Log{Epoch: e.epoch, Keeps: e.config.Keeper != nil, Rows: map[string]transport.Message{}}
	if log.Keeps {
		for _, m := range e.table {
			log.Put(m)
		}
	}
	return log, nil
}

// Send implements transport.Link.
func (e *End) Send(ctx context.Context, m transport.Message) error {
	m.Event = m.Event.Clone()
	err := e.Check()
	if err == nil {
		err = e.put(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("packetlink: send %.80q to %s: %w", m.Key, e.config.Peer, err)
	}
	e.signal()
	return nil
}

func (e *End) put(ctx context.Context, m transport.Message) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := errors.Join(e.usable(ctx), m.Fits()); err != nil {
		return err
	}
	record, err := appendMessage(nil, m)
	if err == nil && e.config.Keeper != nil {
		err = e.config.Keeper.Append(record)
	}
	if err != nil {
		return err
	}
	e.table[m.Key] = m
	e.unsent.push(m.Key)
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
	e.closed, e.conn = true, nil
	e.inbox.Close()
	e.streams.Close()
	if e.config.Keeper == nil {
		return nil
	}
	if err := e.config.Keeper.Close(); err != nil {
		return fmt.Errorf("packetlink: close log to %s: %w", e.config.Peer, err)
	}
	return nil
}

// Begin says that there is a connection to a process of the peer, which begins one too. The
// one before, if any, has ended.
func (e *End) Begin(p transport.Presence) *Connection {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &Connection{end: e}
	if e.closed {
		return c
	}
	c.streams = e.streams.Begin()
	e.conn, e.unsent = c, keys{}
	for k := range e.table {
		e.unsent.push(k)
	}
	e.inbox.There(&p)
	return c
}

// End says that there is no connection, for the reason why.
func (e *End) End(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conn = nil
	e.streams.End(why)
	e.inbox.There(nil)
}
