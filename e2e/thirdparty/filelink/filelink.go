// Package filelink carries a link's tables in files: a transport that was written outside
// the project, as an example. Each side writes into a folder of its own and reads the
// other's, wherever that is mounted as "peer": who may write there is who the peer is. In a
// folder are
//
//	hello   who is there, how often it has said so, and whom it hears
//	log     the epoch, then messages, of which the last of each key is its value
//	p.N     the N-th packet of streams in the connection of now, until the peer has taken it
//
// What was read is not kept: it comes again to the next process. A log grows until the next
// process leaves out what was replaced.
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

// Hub is the principal's end: in a folder it has one for each agent.
type Hub struct {
	ends
	running chan struct{} // closed once Run runs
}

// NewHub returns a Hub, whose Run is to be called once.
func NewHub(dir string, p transport.Presence) *Hub {
	return &Hub{ends{dir: dir, presence: p, links: map[string]*link{}}, make(chan struct{})}
}

// Run implements transport.Hub.
func (h *Hub) Run(ctx context.Context) error {
	close(h.running)
	<-ctx.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.links {
		_ = l.Close() // which does not fail
	}
	h.ended = true
	return context.Cause(ctx)
}

// Link implements transport.Hub.
func (h *Hub) Link(ctx context.Context, agent string) (transport.Link, error) {
	select {
	case <-h.running:
	case <-ctx.Done():
	}
	return h.open(ctx, filepath.Join(h.dir, agent), "principal", agent)
}

// Forget implements transport.Hub.
func (h *Hub) Forget(_ context.Context, agent string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy(agent) {
		return fmt.Errorf("filelink: forget %s: its link is open", agent)
	}
	err := os.Remove(filepath.Join(h.dir, agent, "log"))
	if os.IsNotExist(err) {
		err = fmt.Errorf("filelink: forget %s: %w", agent, transport.ErrUnknown)
	}
	return err
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
type Dialer struct {
	ends
	name string
}

// NewDialer returns the Dialer of an agent with a folder.
func NewDialer(dir, name string, p transport.Presence) *Dialer {
	return &Dialer{ends{dir: dir, presence: p, links: map[string]*link{}}, name}
}

// Dial implements transport.Dialer.
func (d *Dialer) Dial(ctx context.Context) (transport.Link, error) {
	return d.open(ctx, d.dir, d.name, "principal")
}

// ends are the Links of a process.
type ends struct {
	dir      string
	presence transport.Presence
	mu       sync.Mutex
	links    map[string]*link // by the peer; also those that are closed
	ended    bool
}

func (e *ends) busy(peer string) bool { return e.links[peer] != nil && !e.links[peer].closed() }

func (e *ends) open(ctx context.Context, dir, name, peer string) (transport.Link, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case e.ended:
		return nil, transport.ErrClosed
	case e.busy(peer):
		return nil, errors.New("filelink: another link is open")
	}
	l, err := newLink(dir, name, peer, e.presence)
	if err != nil {
		return nil, fmt.Errorf("filelink: open link to %s: %w", peer, err)
	}
	e.links[peer] = l
	return l, nil
}
