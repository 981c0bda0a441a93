package demo

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A traffic counts what crosses the links.
type traffic struct {
	states atomic.Int64 // rows of objects, and tombstones
	others atomic.Int64 // what the two sides compare their tables by
}

// Messages is a number of messages that crossed the links.
type Messages struct {
	// States are those about objects: how they are, or that they are gone.
	States int64 `json:"states"`
	// Others are those by which the two sides compare what they have.
	Others int64 `json:"others"`
}

func (t *traffic) sum() Messages {
	return Messages{States: t.states.Load(), Others: t.others.Load()}
}

func (m Messages) minus(n Messages) Messages {
	return Messages{States: m.States - n.States, Others: m.Others - n.Others}
}

func (t *traffic) count(m transport.Message) {
	if strings.HasPrefix(m.Key, "$") {
		t.others.Add(1)
	} else {
		t.states.Add(1)
	}
}

// A tappedHub counts what arrives from agents.
type tappedHub struct {
	transport.Hub
	traffic *traffic
}

// Link implements transport.Hub.
func (h tappedHub) Link(ctx context.Context, agent string) (transport.Link, error) {
	l, err := h.Hub.Link(ctx, agent)
	if err != nil {
		return nil, err
	}
	return &tappedLink{Link: l, traffic: h.traffic}, nil
}

// A tappedDialer counts what arrives from the principal.
type tappedDialer struct {
	transport.Dialer
	traffic *traffic
}

// Dial implements transport.Dialer.
func (d tappedDialer) Dial(ctx context.Context) (transport.Link, error) {
	l, err := d.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &tappedLink{Link: l, traffic: d.traffic}, nil
}

type tappedLink struct {
	transport.Link
	traffic *traffic
	live    bool // what was kept has been replayed: Values are new
}

// Receive implements transport.Link.
func (l *tappedLink) Receive(ctx context.Context) (transport.Delivery, error) {
	d, err := l.Link.Receive(ctx)
	if err != nil {
		return d, err
	}
	switch d.Event {
	case transport.Value:
		if l.live {
			l.traffic.count(d.Message)
		}
	case transport.Replayed:
		l.live = true
	}
	return d, nil
}
