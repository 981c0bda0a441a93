package memlink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A process is what Links belong to. It says its presence to the peers.
type process struct {
	presence transport.Presence
	once     sync.Once
	ended    chan struct{}
}

func newProcess(p transport.Presence) *process {
	return &process{presence: p, ended: make(chan struct{})}
}

// end ends p: its Links on these lines are closed, and it can open no more.
func (p *process) end(lines ...*line) {
	p.once.Do(func() { close(p.ended) })
	for _, l := range lines {
		l.evict(p)
	}
}

// dead reports whether p has ended.
func (p *process) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// An Agent is an agent's process. It implements transport.Dialer.
type Agent struct {
	line    *line
	process *process
}

// Dial implements transport.Dialer.
func (a *Agent) Dial(ctx context.Context) (transport.Link, error) {
	l, err := a.line.open(ctx, agent, a.process)
	if err != nil {
		return nil, fmt.Errorf("memlink: dial as %s: %w", a.line.name, err)
	}
	return l, nil
}

// A Hub is the principal's process. It implements transport.Hub.
type Hub struct {
	n       *Network
	process *process
	once    sync.Once
	running chan struct{} // closed once Run runs
}

// Run implements transport.Hub. When it returns, the process has ended.
func (h *Hub) Run(ctx context.Context) error {
	first := false
	h.once.Do(func() { first = true })
	if !first {
		return errors.New("memlink: run hub: it runs, or has run")
	}
	close(h.running)
	defer func() { h.process.end(h.n.all()...) }()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-h.process.ended:
		return errors.New("memlink: run hub: another process of the principal has started")
	}
}

// Link implements transport.Hub.
func (h *Hub) Link(ctx context.Context, agent string) (transport.Link, error) {
	select {
	case <-h.running:
	case <-h.process.ended:
	case <-ctx.Done():
	}
	l, err := h.n.line(agent).open(ctx, hub, h.process)
	if err != nil {
		return nil, fmt.Errorf("memlink: open link to %s: %w", agent, err)
	}
	return l, nil
}

// Forget implements transport.Hub. What the agent keeps on its own side stays.
func (h *Hub) Forget(ctx context.Context, agent string) error {
	err := context.Cause(ctx)
	if err == nil {
		err = h.n.line(agent).forget()
	}
	if err != nil {
		return fmt.Errorf("memlink: forget %s: %w", agent, err)
	}
	return nil
}

// Kept implements transport.Hub.
func (h *Hub) Kept(ctx context.Context) ([]string, error) {
	select {
	case <-h.running:
	case <-h.process.ended:
	case <-ctx.Done():
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("memlink: list agents: %w", context.Cause(ctx))
	case h.process.dead():
		return nil, fmt.Errorf("memlink: list agents: %w", transport.ErrClosed)
	}
	var kept []string
	for _, l := range h.n.all() {
		if l.registered() {
			kept = append(kept, l.name)
		}
	}
	slices.Sort(kept)
	return kept, nil
}
