package natslink

import (
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Bounds of what is known of connections to servers elsewhere.
const (
	kickFor   = 10 * time.Second // a connection is closed again and again for so long
	unseenFor = 5 * time.Second  // a connection that was let in may take so long to be there
	maxMissed = 2                // lists on end without a connection: it has ended
)

// An endpoint is a connection to a server elsewhere, as that server numbers it.
type endpoint struct {
	Server string `json:"server"`
	CID    uint64 `json:"cid"`
}

// A call is a connection of an agent to a server elsewhere.
type call struct {
	endpoint
	agent   string
	since   time.Time
	missed  int
	severed time.Time // since when it is to be closed; zero if it is not
}

// Calls are the connections of agents to servers elsewhere, each with a number that no other has
// in this process. They are known from when they are let in, end when a server says so, and are
// compared with the servers' own lists.
type calls struct {
	kick func(endpoint) // asks its server to close it; does not wait

	mu      sync.Mutex
	last    uint64
	of      map[uint64]*call
	at      map[endpoint]uint64
	changed chan struct{} // closed when one ends
}

func newCalls(kick func(endpoint)) *calls {
	return &calls{kick: kick, of: map[uint64]*call{}, at: map[endpoint]uint64{}, changed: make(chan struct{})}
}

// enter returns the number of a connection.
func (c *calls) enter(e endpoint, now time.Time) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, known := c.at[e]; known {
		return id
	}
	c.last++
	c.of[c.last], c.at[e] = &call{endpoint: e, since: now}, c.last
	return c.last
}

// let notes whose a connection is.
func (c *calls) let(id uint64, agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.of[id]; k != nil {
		k.agent = agent
	}
}

// connected returns id if that connection is there, and 0 if not.
func (c *calls) connected(id uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.of[id]; k == nil || !k.severed.IsZero() {
		return 0
	}
	return id
}

// sever closes a connection.
func (c *calls) sever(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.of[id]; k != nil && k.severed.IsZero() {
		k.severed = time.Now()
		c.kick(k.endpoint)
	}
}

// severAll closes the connections of an agent, and returns how many there are.
func (c *calls) severAll(agent string) int {
	c.mu.Lock()
	var all []uint64
	for id, k := range c.of {
		if k.agent == agent {
			all = append(all, id)
		}
	}
	c.mu.Unlock()
	for _, id := range all {
		c.sever(id)
	}
	return len(all)
}

// wait returns what is closed when a connection ends.
func (c *calls) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// again closes again what should be closed: a server may not have known it yet when it was told.
func (c *calls) again(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, k := range c.of {
		switch {
		case k.severed.IsZero():
		case now.Sub(k.severed) > kickFor:
			c.remove(id)
		default:
			c.kick(k.endpoint)
		}
	}
}

// forget drops a connection that was not let in.
func (c *calls) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(id)
}

// ended takes in that a connection is closed.
func (c *calls) ended(e endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, known := c.at[e]; known {
		c.remove(id)
	}
}

// gone takes in that a server does not know a connection. It may not yet know one that has just been
// let in.
func (c *calls) gone(e endpoint, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, known := c.at[e]; known && now.Sub(c.of[id].since) > unseenFor {
		c.remove(id)
	}
}

// remove is called with the lock held.
func (c *calls) remove(id uint64) {
	if k := c.of[id]; k != nil {
		delete(c.at, k.endpoint)
		delete(c.of, id)
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

// compare takes in which connections the servers list, and returns those that are not known.
func (c *calls) compare(there map[endpoint]*server.LeafInfo, now time.Time) (strange []endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := range there {
		if _, known := c.at[e]; !known {
			strange = append(strange, e)
		}
	}
	for id, k := range c.of {
		_, is := there[k.endpoint]
		switch {
		case is:
			k.missed = 0
		case now.Sub(k.since) < unseenFor:
		default:
			if k.missed++; k.missed >= maxMissed {
				c.remove(id)
			}
		}
	}
	return strange
}

// number returns the number of a connection, 0 if it is not known, and whose it is.
func (c *calls) number(e endpoint) (id uint64, agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id = c.at[e]; id != 0 {
		agent = c.of[id].agent
	}
	return id, agent
}

// endpoint returns which connection a number is of, and whether it is known.
func (c *calls) endpoint(id uint64) (e endpoint, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.of[id]; k != nil {
		return k.endpoint, true
	}
	return e, false
}
