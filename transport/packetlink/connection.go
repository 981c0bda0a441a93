package packetlink

import (
	"errors"
	"fmt"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

// A Connection is what two Ends say to each other from Begin until either of them, or what is
// between them, is gone. Transports that have a line for each may carry its two parts apart;
// for others, Next and Take are both.
type Connection struct {
	Table   *Table
	Streams *mux.Session
	talked  bool // the last packet was one of streams
}

// The first byte of a packet of both says what the rest is.
const (
	ofTable   = 't'
	ofStreams = 's'
)

// Next appends to b the next packet for the peer, and nothing if there is none now. A packet
// is of about mux.MaxPacket bytes at most, or of one Message, or of the marks of a copy. The
// table and the streams take turns. It is called by one goroutine at a time.
func (c *Connection) Next(b []byte, now time.Time) []byte {
	for range 2 {
		c.talked = !c.talked
		first, next := byte(ofTable), c.Table.Next
		if c.talked {
			first, next = ofStreams, c.Streams.Next
		}
		if longer := next(append(b, first), now); len(longer) > len(b)+1 {
			return longer
		}
	}
	return b
}

// Take takes in the next packet of the peer, and keeps it. If it is against the rules it
// returns why: then the connection is of no use any more. It is called by one goroutine at a
// time.
func (c *Connection) Take(packet []byte, now time.Time) error {
	switch {
	case len(packet) == 0:
		return errors.New("packetlink: a packet is empty")
	case packet[0] == ofStreams:
		return c.Streams.Take(packet[1:], now)
	case packet[0] == ofTable:
		return c.Table.Take(packet[1:], now)
	}
	return fmt.Errorf("packetlink: a packet begins with %q", packet[0])
}
