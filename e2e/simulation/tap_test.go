package simulation

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// A tap counts what one side of a link does, over all its processes.
type tap struct {
	sent   atomic.Int64 // messages put into the log
	heard  atomic.Int64 // messages taken from the link once the kept copy was replayed, repetitions left out
	states atomic.Int64 // of those heard, the values of objects
	mu     sync.Mutex
	writes map[string]int // writes and removals that were done, by the object's name
	link   transport.Link // that is open, or was last

	swallow func(transport.Message) bool // if set, says which messages never reach the session
}

// on returns l, tapped.
func (p *tap) on(l transport.Link) transport.Link {
	if l == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = l
	return &tappedLink{Link: l, tap: p, last: map[string]uint64{}}
}

// all returns the number of everything that was done so far.
func (p *tap) all() int64 {
	n := p.sent.Load() + p.heard.Load()
	for _, w := range p.written() {
		n += int64(w)
	}
	return n
}

func (p *tap) written() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.writes)
}

// reset forgets which objects were written and what was heard.
func (p *tap) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = map[string]int{}
	p.heard.Store(0)
	p.states.Store(0)
}

func (p *tap) wrote(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writes == nil {
		p.writes = map[string]int{}
	}
	p.writes[name]++
}

// send puts a message into the log of the link that is open, past the session.
func (p *tap) send(ctx context.Context, m transport.Message) error {
	p.mu.Lock()
	l := p.link
	p.mu.Unlock()
	return l.Send(ctx, m)
}

// A tappedLink is a Link of the side whose tap it is.
type tappedLink struct {
	transport.Link
	*tap
	live bool              // Replayed was received
	last map[string]uint64 // the place of the last value of each key
}

// Send implements transport.Link.
func (l *tappedLink) Send(ctx context.Context, m transport.Message) error {
	l.sent.Add(1)
	return l.Link.Send(ctx, m)
}

// Receive implements transport.Link.
func (l *tappedLink) Receive(ctx context.Context) (transport.Delivery, error) {
	for {
		d, err := l.Link.Receive(ctx)
		switch {
		case err != nil:
			return d, err
		case d.Event == transport.Replayed:
			l.live = true
		case d.Event != transport.Value:
		case l.swallow != nil && l.swallow(d.Message):
			continue // and never acked
		case l.live && d.At > l.last[d.Message.Key]:
			l.last[d.Message.Key] = d.At
			l.heard.Add(1)
			if !strings.HasPrefix(d.Message.Key, "$") && !d.Message.Tombstone() {
				l.states.Add(1)
			}
		}
		return d, nil
	}
}

// A tappedStore is a Store for which tap says whose the objects are.
type tappedStore struct {
	backend.Store
	tap func(resource.Key) *tap
}

// Write implements backend.Store.
func (s tappedStore) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	o, err := s.Store.Write(ctx, want)
	if err == nil {
		s.tap(want.Key).wrote(want.Key.Name)
	}
	return o, err
}

// Remove implements backend.Store.
func (s tappedStore) Remove(ctx context.Context, k resource.Key, version string) error {
	err := s.Store.Remove(ctx, k, version)
	if err == nil {
		s.tap(k).wrote(k.Name)
	}
	return err
}
