package mux

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// Why a stream cannot be used, besides the end of its session.
var (
	errPeerClosed = errors.New("the peer has closed the stream")
	errShut       = errors.New("the stream was closed for writing")
	errRefused    = errors.New("the peer has refused the stream: it has too many")
)

// A conn is one end of a stream. It implements net.Conn.
type conn struct {
	session *Session
	id      id
	service string
	writing chan struct{} // holds one element while a Write is under way
	readBy  deadline
	writeBy deadline

	// The Mux's lock guards the rest.
	err     error // why the stream has failed
	opening bool  // the peer is to be told of the stream
	owing   bool  // it is in the session's control
	over    bool  // it is not counted any more

	// What is written.
	out      []byte // of the Write that is under way: what was not sent
	sent     uint64 // bytes
	credit   uint64 // how many the peer allows
	queued   bool   // it is in the session's ready
	shut     bool   // nothing more is written
	finished bool   // the peer knows
	stopped  bool   // the peer reads no more
	writable bell

	// What is read.
	in       buffer
	got      uint64 // bytes that have arrived
	limit    uint64 // how many the peer was allowed
	window   uint64 // how many may wait to be read
	eof      bool   // nothing more arrives
	dropped  bool   // nothing more is read
	told     bool   // the peer knows that nothing more is read
	readable bell
}

func newConn(s *Session, i id, service string) *conn {
	return &conn{session: s, id: i, service: service, writing: make(chan struct{}, 1)}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	for {
		if c.readBy.expired() {
			return 0, c.failure("read", os.ErrDeadlineExceeded)
		}
		n, readable, err := c.read(p)
		switch {
		case err == io.EOF:
			return 0, err
		case err != nil:
			return 0, c.failure("read", err)
		case readable == nil:
			return n, nil
		}
		select {
		case <-readable:
		case <-c.readBy.wait():
		}
	}
}

// read reads what there is, or returns what to wait for.
func (c *conn) read(p []byte) (n int, readable <-chan struct{}, err error) {
	c.session.mux.mu.Lock()
	defer c.session.mux.mu.Unlock()
	switch {
	case c.dropped:
		return 0, nil, net.ErrClosed
	case len(p) == 0:
		return 0, nil, nil
	case c.in.len() > 0:
		n = c.in.take(p)
		c.owe()
		c.settle()
		return n, nil, nil
	case c.eof:
		return 0, nil, io.EOF
	case c.err != nil:
		return 0, nil, c.err
	}
	return 0, c.readable.wait(), nil
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (n int, err error) {
	if c.writeBy.expired() {
		return 0, c.failure("write", os.ErrDeadlineExceeded)
	}
	select {
	case c.writing <- struct{}{}:
	case <-c.writeBy.wait():
		return 0, c.failure("write", os.ErrDeadlineExceeded)
	}
	defer func() { <-c.writing }()
	if n, err = c.write(p); err != nil {
		return n, c.failure("write", err)
	}
	return n, nil
}

// write lends p to the session, which takes bytes from it as the peer allows, until all are
// taken.
func (c *conn) write(p []byte) (int, error) {
	mu := &c.session.mux.mu
	mu.Lock()
	defer mu.Unlock()
	c.out = p
	defer func() { c.out = nil }()
	c.offer()
	err := c.unwritable()
	for late := false; ; err = c.unwritable() {
		if err == nil && late {
			err = os.ErrDeadlineExceeded
		}
		if len(c.out) == 0 && (len(p) > 0 || err == nil) {
			return len(p), nil // whatever has happened since
		}
		if err != nil {
			return len(p) - len(c.out), err
		}
		writable := c.writable.wait()
		mu.Unlock()
		select {
		case <-writable:
		case <-c.writeBy.wait():
			late = true
		}
		mu.Lock()
	}
}

// unwritable says why nothing can be written.
func (c *conn) unwritable() error {
	switch {
	case c.dropped:
		return net.ErrClosed
	case c.shut:
		return errShut
	case c.err != nil:
		return c.err
	case c.stopped:
		return errPeerClosed
	}
	return nil
}

// CloseWrite ends what is written. What is read is not touched.
func (c *conn) CloseWrite() error {
	c.session.mux.mu.Lock()
	defer c.session.mux.mu.Unlock()
	if c.dropped {
		return c.failure("close", net.ErrClosed)
	}
	c.shut = true
	c.writable.ring()
	c.owe()
	c.settle()
	return nil
}

// Close implements net.Conn. To close again is no error.
func (c *conn) Close() error {
	c.session.mux.mu.Lock()
	defer c.session.mux.mu.Unlock()
	c.shut, c.dropped = true, true
	c.in.drop()
	c.writable.ring()
	c.readable.ring()
	c.owe()
	c.settle()
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return addr{c.session.mux.config.Local, c.service} }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return addr{c.session.mux.config.Peer, c.service} }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.readBy.set(t)
	c.writeBy.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.readBy.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writeBy.set(t)
	return nil
}

// failure returns err as net.Conns return errors.
func (c *conn) failure(op string, err error) error {
	return &net.OpError{Op: op, Net: network, Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// network is the name of the network that an addr is of.
const network = "link"

// An addr is a service of one side.
type addr struct{ side, service string }

// Network implements net.Addr.
func (addr) Network() string { return network }

// String implements net.Addr.
func (a addr) String() string { return a.side + "/" + a.service }
