package redis

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/proxy"
)

// channels listen to channels of agents, for all clients together: to each agent by one stream,
// which is there while anybody listens.
type channels struct {
	dial proxy.Opener
	// start has something run until it is stopped, or all is.
	start func(run func(context.Context)) (stop func())
	log   *zap.Logger

	mu     sync.Mutex
	agents map[string]*audience
}

// An audience is who listens to channels of one agent.
type audience struct {
	ears  *ears
	stop  func()
	halls map[string]*hall // by channel
}

// A hall is who listens to one channel.
type hall struct {
	ready <-chan struct{}
	in    map[*listener]bool
}

// A listener is told that there is something new.
type listener struct{ note func() }

func newChannels(dial proxy.Opener, start func(func(context.Context)) func(), log *zap.Logger) *channels {
	return &channels{dial: dial, start: start, log: log, agents: map[string]*audience{}}
}

// maxHeard is the largest that an agent may say on a channel, in bytes: Argo CD says nothing.
const maxHeard = 64 << 10

// open has note called when there is something new on a channel of an agent, until stop is
// called, once. ready is closed once that can be heard.
func (c *channels) open(at place, note func()) (ready <-chan struct{}, stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agents[at.agent]
	if a == nil {
		a = c.audience(at.agent)
		c.agents[at.agent] = a
	}
	h := a.halls[at.key]
	if h == nil {
		h = &hall{a.ears.open(ear{name: at.key}), map[*listener]bool{}}
		a.halls[at.key] = h
	}
	l := &listener{note}
	h.in[l] = true
	return h.ready, func() { c.leave(at, l) }
}

// audience returns one that listens.
func (c *channels) audience(agent string) *audience {
	dial := func(ctx context.Context) (*line, error) {
		conn, err := c.dial(ctx, agent, Service)
		if err != nil {
			return nil, err
		}
		return newLine(conn, maxHeard), nil
	}
	a := &audience{ears: newEars(dial, "", c.log.With(zap.String("agent", agent))), halls: map[string]*hall{}}
	a.stop = c.start(func(ctx context.Context) {
		a.ears.run(ctx, func(_ context.Context, by ear, _, _ string) { c.tell(a, by.name) })
	})
	return a
}

// tell says that there is something new on a channel.
func (c *channels) tell(a *audience, channel string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := a.halls[channel]; h != nil {
		for l := range h.in {
			l.note()
		}
	}
}

func (c *channels) leave(at place, l *listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agents[at.agent]
	h := a.halls[at.key]
	if delete(h.in, l); len(h.in) > 0 {
		return
	}
	a.ears.shut(ear{name: at.key})
	if delete(a.halls, at.key); len(a.halls) == 0 {
		a.stop()
		delete(c.agents, at.agent)
	}
}
