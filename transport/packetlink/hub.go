package packetlink

import (
	"context"
	"errors"
	"fmt"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// HubConfig is what a Hub is made of. All fields are needed.
type HubConfig struct {
	// Open opens the Link to an agent, of which none is open.
	Open func(agent string) (transport.Link, error)
	// Forget removes all that is kept for an agent whose Link is not open; ErrUnknown if there
	// is nothing.
	Forget func(agent string) error
	// Kept returns the agents for which something is kept, sorted.
	Kept func() ([]string, error)
}

// A Hub is a transport.Hub whose Links need no more of it than that it runs.
type Hub struct {
	config  HubConfig
	links   links
	serving transport.Serving
}

// NewHub returns a Hub, whose Run is to be called once.
func NewHub(c HubConfig) *Hub { return &Hub{config: c, serving: transport.NewServing()} }

// Run implements transport.Hub.
func (h *Hub) Run(ctx context.Context) error {
	h.serving.Begin()
	defer h.serving.End()
	<-ctx.Done()
	return errors.Join(context.Cause(ctx), h.links.end())
}

// Link implements transport.Hub.
func (h *Hub) Link(ctx context.Context, agent string) (transport.Link, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return nil, fmt.Errorf("packetlink: open link to %s: %w", agent, err)
	}
	return h.links.begin(ctx, agent, h.config.Open)
}

// Forget implements transport.Hub.
func (h *Hub) Forget(ctx context.Context, agent string) error {
	err := context.Cause(ctx)
	if err == nil {
		err = h.links.without(agent, h.config.Forget)
	}
	if err != nil {
		return fmt.Errorf("packetlink: forget %s: %w", agent, err)
	}
	return nil
}

// Kept implements transport.Hub.
func (h *Hub) Kept(ctx context.Context) ([]string, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("packetlink: list agents: %w", err)
	}
	return h.config.Kept()
}

// A Dialer is a transport.Dialer whose Link needs nothing of it.
type Dialer struct {
	open  func() (transport.Link, error)
	links links
}

// NewDialer returns a Dialer. open opens the Link to the principal, of which none is open.
func NewDialer(open func() (transport.Link, error)) *Dialer { return &Dialer{open: open} }

// Dial implements transport.Dialer.
func (d *Dialer) Dial(ctx context.Context) (transport.Link, error) {
	return d.links.begin(ctx, "principal", func(string) (transport.Link, error) { return d.open() })
}
