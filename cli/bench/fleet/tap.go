package fleet

import (
	"context"
	"strings"
	"sync"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A tap counts what arrives over the Links that a Dialer opens.
type tap struct {
	transport.Dialer
	noted bool

	mu       sync.Mutex
	received int
	values   map[value]struct{}
}

// A value is what a key was said to have.
type value struct{ key, digest string }

// over taps another Dialer, and goes on counting.
func (t *tap) over(d transport.Dialer) transport.Dialer {
	if !t.noted {
		return d
	}
	t.Dialer = d
	return t
}

// Dial implements transport.Dialer.
func (t *tap) Dial(ctx context.Context) (transport.Link, error) {
	l, err := t.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &tapped{Link: l, tap: t}, nil
}

// count returns how many messages about objects have arrived, and how many different ones.
func (t *tap) count() (received, unique int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.received, len(t.values)
}

type tapped struct {
	transport.Link
	tap      *tap
	replayed bool // what the copy held has been delivered, none of which has crossed the line now
}

// Receive implements transport.Link.
func (l *tapped) Receive(ctx context.Context) (transport.Delivery, error) {
	d, err := l.Link.Receive(ctx)
	l.replayed = l.replayed || err == nil && d.Event == transport.Replayed
	if err == nil && l.replayed && d.Event == transport.Value && !strings.HasPrefix(d.Message.Key, "$") {
		l.tap.mu.Lock()
		defer l.tap.mu.Unlock()
		l.tap.received++
		l.tap.values[value{d.Message.Key, d.Message.Digest}] = struct{}{}
	}
	return d, err
}
