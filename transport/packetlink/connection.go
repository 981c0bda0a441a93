package packetlink

import (
	"errors"
	"fmt"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

// A Connection is what two Ends say to each other from Begin until either of them, or what is
// between them, is gone. Its methods are each called by one goroutine at a time.
type Connection struct {
	end     *End
	streams *mux.Session
	talked  bool // the last packet was one of streams
}

// The first byte of a packet says what the rest is.
const (
	ofTable   = 't'
	ofStreams = 's'
)

// Next appends to b the next packet for the peer, and nothing if there is none now. A packet
// is of about mux.MaxPacket bytes at most, or of one Message. The table and the streams take
// turns.
func (c *Connection) Next(b []byte, now time.Time) []byte {
	c.end.mu.Lock()
	defer c.end.mu.Unlock()
	if c.end.conn != c {
		return b
	}
	for range 2 {
		c.talked = !c.talked
		next := c.end.rows
		if c.talked {
			next = func(b []byte) []byte { return c.streams.Next(append(b, ofStreams), now) }
		}
		if longer := next(b); len(longer) > len(b)+1 {
			return longer
		}
	}
	return b
}

// rows appends a packet of what is unsent.
func (e *End) rows(b []byte) []byte {
	end := len(b) + mux.MaxPacket
	b = append(b, ofTable)
	for len(b) < end && e.unsent.len() > 0 {
		k := e.unsent.pop()
		if m, ok := e.table[k]; ok {
			b, _ = appendMessage(b, m) // as it was when it was sent
		}
	}
	return b
}

// Take takes in the next packet of the peer, and keeps it. If it is against the rules it returns why: then
// the connection is of no use any more.
func (c *Connection) Take(packet []byte, now time.Time) error {
	if len(packet) == 0 {
		return errors.New("packetlink: a packet is empty")
	}
	c.end.mu.Lock()
	current := c.end.conn == c
	c.end.mu.Unlock()
	switch {
	case !current:
		return nil
	case packet[0] == ofStreams:
		return c.streams.Take(packet[1:], now)
	case packet[0] == ofTable:
		return c.take(packet[1:])
	}
	return fmt.Errorf("packetlink: a packet of %s begins with %q", c.end.config.Peer, packet[0])
}

func (c *Connection) take(rows []byte) error {
	e := c.end
	for len(rows) > 0 {
		m, rest, err := cutMessage(rows)
		if err != nil {
			return fmt.Errorf("packetlink: read message of %s: %w", e.config.Peer, err)
		}
		e.mu.Lock()
		e.at++
		e.inbox.Put(transport.Delivery{Event: transport.Value, Message: m, At: e.at})
		e.mu.Unlock()
		rows = rest
	}
	return nil
}
