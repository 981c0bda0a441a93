// Package memlink is a transport within one process, with faults on request. It is the
// reference for package transport, and what simulations use: a thousand agents and tens of
// thousands of keys are cheap, and all of it runs in a bubble of testing/synctest, in
// virtual time.
package memlink

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// Config is what a Network is made of. The zero Config is a perfect network whose logs and
// copies live only in the processes.
type Config struct {
	// Seed decides everything that is left to chance.
	Seed uint64
	// Keeps says that logs and copies outlive the processes. If not, a log is gone with the
	// process that wrote it and holds only what the peer has not acked, and nothing is
	// delivered again that was acked.
	Keeps bool
	// Rows is how many keys a log may hold; Send of another one is refused with ErrFull.
	// 0 is no limit.
	Rows int
	// Notice is how long it takes to notice that the line has become a black hole; 0 is
	// 20 seconds.
	Notice time.Duration
	// Weather is what every line begins with.
	Weather Weather
}

// A Network joins one principal to its agents. It holds what outlives the processes.
type Network struct {
	config Config
	mu     sync.Mutex
	rnd    *rand.Rand
	hub    *process            // the principal's
	agents map[string]*process // each agent's
	lines  map[string]*line    // by agent
}

// New returns a Network without processes.
func New(c Config) *Network {
	if c.Notice == 0 {
		c.Notice = 20 * time.Second
	}
	return &Network{
		config: c,
		rnd:    rand.New(rand.NewPCG(c.Seed, 0)),
		agents: map[string]*process{},
		lines:  map[string]*line{},
	}
}

// Hub starts a process of the principal that says p of itself; the network gives it its
// Process. The principal's process before it, if any, is killed: its Links are closed, and
// its Run returns.
func (n *Network) Hub(p transport.Presence) *Hub {
	lines := n.all()
	n.mu.Lock()
	defer n.mu.Unlock()
	p.Process = random(n.rnd)
	before := n.hub
	n.hub = newProcess(p)
	if before != nil {
		before.end(lines...)
	}
	for _, l := range lines {
		l.start(hub)
	}
	return &Hub{n: n, process: n.hub, running: make(chan struct{})}
}

// Agent starts a process of an agent that says p of itself; the network gives it its
// Process. The agent's process before it, if any, is killed: its Link is closed.
func (n *Network) Agent(name string, p transport.Presence) *Agent {
	l := n.line(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	p.Process = random(n.rnd)
	before := n.agents[name]
	n.agents[name] = newProcess(p)
	if before != nil {
		before.end(l)
	}
	l.start(agent)
	return &Agent{line: l, process: n.agents[name]}
}

// Set changes the weather on the line to an agent.
func (n *Network) Set(agent string, w Weather) { n.line(agent).set(w) }

// SetAll changes the weather on every line, also on those to come.
func (n *Network) SetAll(w Weather) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.config.Weather = w
	for _, l := range n.lines {
		l.set(w)
	}
}

// Lose loses one store of the Link to an agent, whether its process runs or not.
func (n *Network) Lose(agent string, s Store) { n.line(agent).lose(s) }

// Age forgets the tombstones in every store of the Link to an agent, as if they were old.
func (n *Network) Age(agent string) { n.line(agent).age() }

// Traffic returns what has crossed the line to an agent since it was there: to the agent,
// and to the principal.
func (n *Network) Traffic(agent string) (down, up Traffic) { return n.line(agent).traffic() }

// all returns all lines.
func (n *Network) all() []*line {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Values(n.lines))
}

// line returns the line to an agent. It is there from the first time that it is named.
func (n *Network) line(agent string) *line {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.lines[agent]
	if l == nil {
		l = newLine(agent, n.config)
		n.lines[agent] = l
	}
	return l
}

// source returns the source of chance for one line: it depends on nothing that happens on
// the others.
func source(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

func random(rnd *rand.Rand) string { return fmt.Sprintf("%016x", rnd.Uint64()) }
