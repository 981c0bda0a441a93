package mux

import (
	"fmt"
	"time"
)

// What a conn says to its peer, and hears. All of it is called with the Mux's lock held.

// raises reports whether the peer should be allowed more.
func (c *conn) raises() bool {
	return !c.eof && !c.dropped && c.allowed()-c.limit >= c.window/4
}

// allowed returns how many bytes the peer may send in all.
func (c *conn) allowed() uint64 { return c.got - uint64(c.in.len()) + c.window }

// finishes reports whether the peer should be told that nothing more is written.
func (c *conn) finishes() bool { return c.shut && !c.finished }

// stops reports whether the peer should be told that nothing more is read.
func (c *conn) stops() bool { return !c.told && (c.dropped || c.eof && c.in.len() == 0) }

// owe has the session call speak if there is something to say.
func (c *conn) owe() {
	if c.owing || c.err != nil || !c.opening && !c.raises() && !c.finishes() && !c.stops() {
		return
	}
	c.owing = true
	c.session.control = append(c.session.control, c)
	c.session.mux.config.Wake()
}

// speak appends to a packet all there is to say but data.
func (c *conn) speak(b []byte) []byte {
	c.owing = false
	if c.err != nil {
		return b
	}
	if c.opening {
		c.opening = false
		b = appendFrame(b, frame{kind: frameOpen, id: c.id, text: []byte(c.service)})
	}
	if c.raises() {
		c.limit = c.allowed()
		b = appendFrame(b, frame{kind: frameLimit, id: c.id, number: c.limit})
	}
	if c.finishes() {
		c.finished = true
		b = appendFrame(b, frame{kind: frameFin, id: c.id})
	}
	if c.stops() {
		c.told = true
		b = appendFrame(b, frame{kind: frameStop, id: c.id})
	}
	c.settle()
	return b
}

// settle has the session count a stream of ours no more once both directions have ended, and
// forget any once the peer is told: what a peer has opened is bounded by what it lets us say.
func (c *conn) settle() {
	if c.id.mine && c.shut && c.stopped && c.eof && (c.dropped || c.in.len() == 0) {
		c.session.discount(c)
	}
	if c.finished && c.stopped && c.eof && c.told {
		c.session.remove(c)
	}
}

// sendable returns how much data can be sent now.
func (c *conn) sendable() int {
	if c.unwritable() != nil {
		return 0
	}
	return int(min(uint64(len(c.out)), c.credit-c.sent))
}

// offer has the session call send if there is something to send.
func (c *conn) offer() {
	if c.queued || c.sendable() == 0 {
		return
	}
	c.queued = true
	c.session.ready = append(c.session.ready, c)
	c.session.mux.config.Wake()
}

// send appends to a packet up to most bytes of data, and queues for another turn if there
// is more.
func (c *conn) send(b []byte, most int, now time.Time) []byte {
	c.queued = false
	n := min(most, c.sendable())
	if n == 0 {
		return b
	}
	b = appendFrame(b, frame{kind: frameData, id: c.id, text: c.out[:n]})
	c.out = c.out[n:]
	c.sent += uint64(n)
	c.session.flight.send(n, now)
	if len(c.out) == 0 {
		c.writable.ring()
	}
	c.offer()
	return b
}

// hear takes in a frame of the peer's about this stream.
func (c *conn) hear(f frame) error {
	switch f.kind {
	case frameData:
		return c.receive(f.text)
	case frameFin:
		c.eof = true
		c.readable.ring()
		c.owe()
		c.settle()
	case frameLimit:
		c.credit = max(c.credit, f.number)
		c.offer()
	case frameStop:
		c.stopped = true
		c.writable.ring()
		c.settle()
	case frameRefuse:
		if !c.id.mine {
			return fmt.Errorf("stream %d is refused by who has opened it", c.id.number)
		}
		c.session.remove(c)
		c.fail(errRefused)
	}
	return nil
}

// receive takes in data.
func (c *conn) receive(p []byte) error {
	c.got += uint64(len(p))
	switch {
	case c.eof:
		return fmt.Errorf("data comes after the end of stream %d", c.id.number)
	case c.got > c.limit:
		return fmt.Errorf("stream %d has got %d bytes, and was allowed %d", c.id.number, c.got, c.limit)
	case c.dropped:
		return nil
	}
	c.in.put(p)
	c.readable.ring()
	return nil
}

// fail ends the stream because of err.
func (c *conn) fail(err error) {
	c.err = err
	c.writable.ring()
	c.readable.ring()
}
