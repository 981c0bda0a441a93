package natslink

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// maxCalls is how many connections one agent may have at once: the one that it uses, and those
// of which the server has not noticed yet that they are gone. Whoever opens more of them loses
// the oldest.
const maxCalls = 4

// Callers are the connections from outside, and whose they are. What the server complains of
// it says of a connection: here it becomes the complaint of an agent.
type callers struct {
	log        *zap.Logger
	alive      func(uint64) uint64 // 0 unless a connection is open
	sever      func(uint64)
	complaints transport.Complaints

	mu    sync.Mutex
	calls map[string][]uint64 // by agent, the oldest first, maxCalls at most; some have ended
}

func newCallers(log *zap.Logger, alive func(uint64) uint64, sever func(uint64)) *callers {
	return &callers{log: log, alive: alive, sever: sever, calls: map[string][]uint64{}}
}

// enter takes in that a connection of an agent was let in.
func (c *callers) enter(agent string, id uint64) {
	for _, old := range c.add(agent, id) {
		if c.alive(old) != 0 {
			c.sever(old)
			c.offend(agent, fmt.Errorf("it has more than %d connections at once; the oldest is closed", maxCalls))
		}
	}
}

// add returns the connections that are too many.
func (c *callers) add(agent string, id uint64) []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(c.calls[agent], id)
	extra := max(0, len(all)-maxCalls)
	c.calls[agent] = slices.Clone(all[extra:])
	return all[:extra]
}

// leave forgets an agent.
func (c *callers) leave(agent string) {
	c.mu.Lock()
	delete(c.calls, agent)
	c.mu.Unlock()
	c.complaints.Forget(agent)
}

// restarted notes that connections are numbered anew.
func (c *callers) restarted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.calls)
}

// agentOf returns whose a connection is, "" if that is not known.
func (c *callers) agentOf(id uint64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for agent, all := range c.calls {
		if slices.Contains(all, id) {
			return agent
		}
	}
	return ""
}

// offend notes what an agent has done.
func (c *callers) offend(agent string, err error) {
	if c.complaints.Note(agent, transport.RulesBroken, err, time.Now()) {
		c.log.Error("an agent breaks the rules", zap.String("agent", agent), zap.Error(err),
			zap.String("advice", "find out what runs with its certificate; block it (argocd-agentctl blocklist) if that is not its agent"))
	}
}

// ofCaller finds the number of a connection in what the server says of it, and what that is.
var ofCaller = regexp.MustCompile(`- (?:lid\w*|cid):(\d+)(?: - "[^"]*")* - (.*)`)

// against is what the server says of who breaks its rules.
var against = regexp.MustCompile(`(?i)violation|exceeded|parser|protocol|invalid`)

// hear takes in an error that the server logs, and reports whether it is the fault of an agent,
// of whom the log has been told then.
func (c *callers) hear(message string) bool {
	found := ofCaller.FindStringSubmatch(message)
	if found == nil || !against.MatchString(found[2]) {
		return false
	}
	id, err := strconv.ParseUint(found[1], 10, 64)
	if err != nil {
		return false
	}
	agent := c.agentOf(id)
	if agent == "" {
		return false
	}
	c.offend(agent, errors.New(found[2]))
	return true
}
