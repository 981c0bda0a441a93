package bench

import (
	"context"
	"strings"
	"sync"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A tap counts what arrives over the Link that a Dialer opens.
type tap struct {
	transport.Dialer

	mu       sync.Mutex
	received int
	values   map[value]struct{}
}

// A value is what a key was said to have.
type value struct{ key, digest string }

// Dial implements transport.Dialer.
func (t *tap) Dial(ctx context.Context) (transport.Link, error) {
	l, err := t.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return tapped{l, t}, nil
}

// count returns how many messages about objects have arrived, and how many different ones.
func (t *tap) count() (received, unique int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.received, len(t.values)
}

type tapped struct {
	transport.Link
	tap *tap
}

// Receive implements transport.Link.
func (l tapped) Receive(ctx context.Context) (transport.Delivery, error) {
	d, err := l.Link.Receive(ctx)
	if err == nil && d.Event == transport.Value && !strings.HasPrefix(d.Message.Key, "$") {
		l.tap.mu.Lock()
		defer l.tap.mu.Unlock()
		l.tap.received++
		l.tap.values[value{d.Message.Key, d.Message.Digest}] = struct{}{}
	}
	return d, err
}
