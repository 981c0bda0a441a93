// Package mux makes the streams of a transport.Link out of packets that cross it in order.
// The adapters share it: each only carries packets between two Sessions and says when the
// peer is there. It has no goroutine of its own, and no clock but for the deadlines of
// streams.
//
// # Packets
//
// A packet is a sequence of frames: open, data, end of data, how much more may be sent, no
// more is read, refused, and how much was taken in. Everything but data is a state, of
// which only the last value is sent, so that what waits to be sent is bounded by the number
// of streams. Two counts bound what is under way: that of each stream, which its reader
// raises as it reads, and that of the session, which the peer raises as packets come in,
// whether they are read or not, and which gives way where bytes queue (see flight). So a stream that nobody reads stops only itself, and the
// bytes that lie in the buffers of the line are few, whatever the number of streams.
// Streams with something to send take turns.
//
// # Why not yamux
//
// hashicorp/yamux was the obvious choice. But its streams end in io.EOF when their session
// is lost, so that half an answer looks like a whole one; its Close goes on reading and
// lets the peer write into the void for five minutes; it kills a session whose line is
// congested for ten seconds; it bounds the streams that wait to be accepted, and not those
// that are open; and it wants a pipe, for which the counting and numbering of frames would
// have to be written anyway.
package mux

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// Bounds, in bytes.
const (
	// MaxPacket is about how long a packet may be: Next goes beyond it by one frame without
	// data at most.
	MaxPacket = 64 << 10

	window  = 256 << 10 // that a reader may be behind
	early   = 32 << 10  // the same, until the stream is accepted
	quantum = 16 << 10  // that a stream may send in its turn
)

// Config configures a Mux.
type Config struct {
	// Local and Peer are the names of the two sides.
	Local, Peer string
	// Wake is called when Next of the current Session may have something new. It must
	// neither wait nor call the Mux.
	Wake func()
}

// A Mux is one end of the streams of a Link. It implements transport.Streams.
type Mux struct {
	config Config

	mu      sync.Mutex
	closed  bool
	there   bool     // a process of the peer is
	session *Session // nil while there is none
	waiting []*conn  // opened by the peer in this session, and not accepted
	changed bell     // rung when any of these has
}

// New returns a Mux whose peer is not there.
func New(c Config) *Mux { return &Mux{config: c} }

// Open implements transport.Streams. If a process of the peer is there it waits for Begin.
func (m *Mux) Open(ctx context.Context, service string) (net.Conn, error) {
	if n := len(service); n == 0 || n > transport.MaxService {
		return nil, fmt.Errorf("mux: open a stream to %s: service has a name of %d bytes", m.config.Peer, n)
	}
	for {
		c, changed, err := m.open(ctx, service)
		if err != nil {
			return nil, fmt.Errorf("mux: open %q to %s: %w", service, m.config.Peer, err)
		}
		if c != nil {
			return c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// open opens a stream, or returns what to wait for.
func (m *Mux) open(ctx context.Context, service string) (*conn, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, nil, transport.ErrClosed
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case m.session != nil:
		c, err := m.session.open(service)
		return c, nil, err
	case !m.there:
		return nil, nil, transport.ErrAway
	}
	return nil, m.changed.wait(), nil
}

// Accept implements transport.Streams.
func (m *Mux) Accept(ctx context.Context) (string, net.Conn, error) {
	for {
		c, changed, err := m.accept(ctx)
		if err != nil {
			return "", nil, fmt.Errorf("mux: accept from %s: %w", m.config.Peer, err)
		}
		if c != nil {
			return c.service, c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// accept returns the stream that waits the longest, or what to wait for.
func (m *Mux) accept(ctx context.Context) (*conn, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, nil, transport.ErrClosed
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case len(m.waiting) == 0:
		return nil, m.changed.wait(), nil
	}
	c := m.waiting[0]
	m.waiting = m.waiting[1:]
	c.window = window
	c.owe()
	return c, nil, nil
}

// Expect notes that a process of the peer is there, though there is no session with it yet.
// The session before, if any, has ended, for the reason why.
func (m *Mux) Expect(why string) { m.set(true, nil, why) }

// Begin begins a session with the peer's process, which begins one too. The session before,
// if any, has ended. Once the Mux is closed a session carries nothing.
func (m *Mux) Begin() *Session {
	s := newSession(m)
	m.set(true, s, "another session has begun")
	return s
}

// End notes that no process of the peer is there. The session, if any, has ended, for the
// reason why.
func (m *Mux) End(why string) { m.set(false, nil, why) }

func (m *Mux) set(there bool, s *Session, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		if s != nil {
			s.ended = true
		}
		there, s = false, nil
	}
	if m.session != nil {
		m.session.end(fmt.Errorf("%w: %s", transport.ErrAway, why))
	}
	m.there, m.session = there, s
	m.changed.ring()
}

// Close ends all streams for good.
func (m *Mux) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.session != nil {
		m.session.end(transport.ErrClosed)
	}
	m.there = false
	m.changed.ring()
}
