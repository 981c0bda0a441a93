package memlink

import (
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

// called returns the name of a side.
func (l *line) called(s side) string { return [...]string{hub: "principal", agent: l.name}[s] }

// Streams implements transport.Link.
func (e *link) Streams() transport.Streams { return e.streams }

// carry has what the streams of e have to send carried over. It takes no lock of the line.
func (e *link) carry() {
	if c := e.carrier.Load(); c != nil {
		c.wake()
	}
}

// A carrier carries what the streams of one side send over one connection. It has a
// goroutine while there is something to carry.
type carrier struct {
	line     *line
	conn     *connection
	from, to *mux.Session
	held     bool // something waits for the line to be whole; the line's lock guards it

	mu      sync.Mutex
	running bool
	again   bool // there may be something new since the goroutine has looked
}

// join tells both ends of each other, and begins a session of streams on c. The line's lock is
// held.
func (c *connection) join() {
	var sessions [2]*mux.Session
	for s, e := range c.ends {
		sessions[s] = e.streams.Begin()
	}
	for s, e := range c.ends {
		c.streams[s] = &carrier{line: e.line, conn: c, from: sessions[s], to: sessions[1-s]}
		e.carrier.Store(c.streams[s])
		peer := c.ends[1-s].process.presence
		e.inbox.There(&peer)
	}
}

// part is the end of what join has begun. The line's lock is held.
func (c *connection) part() {
	for _, e := range c.ends {
		e.carrier.Store(nil)
		e.inbox.There(nil)
		e.streams.End("the connection is gone")
	}
}

// carry has carried what was held and may pass now. The line's lock is held.
func (l *line) carry() {
	if !l.passes() {
		return
	}
	for _, c := range l.conn.streams {
		if c.held {
			c.held = false
			c.wake()
		}
	}
}

// wake has c look for something to carry.
func (c *carrier) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.again = true
	if !c.running {
		c.running = true
		go c.run()
	}
}

// looks reports whether the goroutine is to look once more. If not, it ends.
func (c *carrier) looks() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.again = c.again, false
	return c.running
}

// run carries packets, in order, until there are no more, or nothing may pass. A packet
// takes half of the line's Delay, which is what a value takes on average.
func (c *carrier) run() {
	for c.looks() {
		for {
			delay, passes := c.passage()
			if !passes {
				break
			}
			packet := c.from.Next(nil, time.Now())
			if len(packet) == 0 {
				break
			}
			time.Sleep(delay / 2)
			// Both ends are of this process, so that nothing is against the rules.
			_ = c.to.Take(packet, time.Now())
		}
	}
}

// passage returns how slow the line is, and whether a packet may pass now. If not, what
// there is to carry is held until one may.
func (c *carrier) passage() (delay time.Duration, passes bool) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if c.line.conn != c.conn {
		return 0, false
	}
	c.held = !c.line.passes()
	return c.line.weather.Delay, !c.held
}
