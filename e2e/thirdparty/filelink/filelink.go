// Package filelink carries a link in files: a transport that was written outside the
// project, as an example. Each side writes into a folder of its own and reads the other's,
// which is mounted in it as "peer": who may write there is who the peer is. A folder holds
//
//	log     the epoch, then messages, of which the last of each key is its value
//	hello   who is there, how often it has said so, and whom it hears
//	p.C.N   what the peer is to read as the N-th in the connection C, until it has
//
// A copy is not kept: all of the log comes again with every connection.
package filelink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// Hub is the principal's end: its folder holds one for each agent.
type Hub struct {
	ends
	running chan struct{} // closed once Run runs
}

// NewHub returns a Hub, whose Run is to be called once.
func NewHub(dir string, p transport.Presence) *Hub {
	return &Hub{newEnds(dir, "principal", p), make(chan struct{})}
}

// Run implements transport.Hub.
func (h *Hub) Run(ctx context.Context) error {
	close(h.running)
	<-ctx.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	for _, l := range h.links {
		l.Close()
	}
	return context.Cause(ctx)
}

// Link implements transport.Hub.
func (h *Hub) Link(ctx context.Context, agent string) (transport.Link, error) {
	select {
	case <-h.running:
	case <-ctx.Done():
	}
	return h.open(ctx, filepath.Join(h.dir, agent), agent)
}

// Forget implements transport.Hub.
func (h *Hub) Forget(_ context.Context, agent string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.links[agent]; l != nil && !l.closed() {
		return fmt.Errorf("filelink: forget %s: its link is open", agent)
	}
	if err := os.Remove(filepath.Join(h.dir, agent, "log")); err != nil {
		return fmt.Errorf("filelink: forget %s: %w: %w", agent, transport.ErrUnknown, err)
	}
	return nil
}

// Kept implements transport.Hub.
func (h *Hub) Kept(context.Context) (agents []string, err error) {
	logs, err := filepath.Glob(filepath.Join(h.dir, "*", "log"))
	for _, log := range logs {
		agents = append(agents, filepath.Base(filepath.Dir(log)))
	}
	return agents, err
}

// Dialer is an agent's end.
type Dialer struct{ ends }

// NewDialer returns the Dialer of an agent with a folder.
func NewDialer(dir, agent string, p transport.Presence) *Dialer {
	return &Dialer{newEnds(dir, agent, p)}
}

// Dial implements transport.Dialer.
func (d *Dialer) Dial(ctx context.Context) (transport.Link, error) {
	return d.open(ctx, d.dir, "principal")
}

// ends are the Links of a process, by their peers.
type ends struct {
	dir, name string
	presence  transport.Presence
	mu        *sync.Mutex
	links     map[string]*link
	over      bool
}

func newEnds(dir, name string, p transport.Presence) ends {
	return ends{dir: dir, name: name, presence: p, mu: &sync.Mutex{}, links: map[string]*link{}}
}

func (e *ends) open(ctx context.Context, dir, peer string) (transport.Link, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := context.Cause(ctx)
	switch l := e.links[peer]; {
	case err != nil:
	case e.over:
		err = transport.ErrClosed
	case l != nil && !l.closed():
		err = errors.New("another one is open")
	default:
		if l, err = newLink(dir, e.name, peer, e.presence); err == nil {
			e.links[peer] = l
			return l, nil
		}
	}
	return nil, fmt.Errorf("filelink: open link to %s: %w", peer, err)
}
