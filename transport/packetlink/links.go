package packetlink

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// links are those that a process has opened, at most one to each peer. The zero links are none.
type links struct {
	mu    sync.Mutex
	open  map[string]*held
	ended bool
}

// A held link takes itself out when it is closed.
type held struct {
	transport.Link
	links *links
	once  sync.Once
}

// Close implements transport.Link.
func (h *held) Close() (err error) {
	h.once.Do(func() {
		err = h.Link.Close()
		h.links.mu.Lock()
		defer h.links.mu.Unlock()
		delete(h.links.open, h.Peer())
	})
	return err
}

// begin opens a Link to a peer by open, if there is none yet.
func (l *links) begin(ctx context.Context, peer string, open func(string) (transport.Link, error)) (transport.Link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := context.Cause(ctx)
	switch {
	case err != nil:
	case l.ended:
		err = transport.ErrClosed
	case l.open[peer] != nil:
		err = errors.New("another one is open")
	default:
		var link transport.Link
		if link, err = open(peer); err == nil {
			if l.open == nil {
				l.open = map[string]*held{}
			}
			l.open[peer] = &held{Link: link, links: l}
			return l.open[peer], nil
		}
	}
	return nil, fmt.Errorf("packetlink: open link to %s: %w", peer, err)
}

// without runs f while no Link to a peer is open, nor can be opened. It is an error if one is.
func (l *links) without(peer string, f func(string) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[peer] != nil {
		return errors.New("its link is open")
	}
	return f(peer)
}

// end closes all Links. No other can be opened then.
func (l *links) end() (err error) {
	l.mu.Lock()
	l.ended = true
	var open []*held
	for _, h := range l.open {
		open = append(open, h)
	}
	l.mu.Unlock()
	for _, h := range open {
		err = errors.Join(err, h.Close())
	}
	return err
}
