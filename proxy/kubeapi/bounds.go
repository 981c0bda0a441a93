package kubeapi

import (
	"fmt"
	"sync"
)

// How many requests may be under way at once.
const (
	// MaxRequests is of one agent. It leaves room for what else uses the streams of its link,
	// see transport.MaxStreams.
	MaxRequests = 512
	// MaxOfCaller is of one agent and one caller, which is a host.
	MaxOfCaller = 256
)

// bounds count what is under way.
type bounds struct {
	mu      sync.Mutex
	agents  map[string]int
	callers map[caller]int
}

type caller struct{ agent, host string }

func newBounds() *bounds { return &bounds{agents: map[string]int{}, callers: map[caller]int{}} }

// begin counts a request, which ends with done, or says why there must not be another one.
func (b *bounds) begin(who caller) (done func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.agents[who.agent] >= MaxRequests:
		return nil, fmt.Errorf("%d requests to agent %s are under way, and no more may be", MaxRequests, who.agent)
	case b.callers[who] >= MaxOfCaller:
		return nil, fmt.Errorf("%d requests of %s to agent %s are under way, and no more may be", MaxOfCaller, who.host, who.agent)
	}
	b.agents[who.agent]++
	b.callers[who]++
	return func() { b.end(who) }, nil
}

func (b *bounds) end(who caller) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.agents[who.agent]--; b.agents[who.agent] == 0 {
		delete(b.agents, who.agent)
	}
	if b.callers[who]--; b.callers[who] == 0 {
		delete(b.callers, who)
	}
}

// underWay returns how many requests are.
func (b *bounds) underWay() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range b.agents {
		n += of
	}
	return n
}
