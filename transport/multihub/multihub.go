// Package multihub makes one transport.Hub of several, so that one principal serves agents on
// each of them, and an agent goes from one to another by being started anew.
//
// An agent is on one transport at a time: the one where its process was up last, whichever
// process began later. That one's log and copy are the Link's; on the others nothing is kept
// for the agent, and its process is awaited there. When it comes, the Link goes over to it: to
// who uses it, the peer was down, the log was lost and is begun anew, and so is the copy, which
// is what the comment of transport.Link allows at any time. What the transport that was left had
// kept is removed at once: it would speak of the past when the agent comes back to it. The
// agent's side does the same, see cli/command.
//
// On which transport each agent is outlives the process in a file, since what is kept for an
// agent that is away is found only there.
package multihub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A Carrier is one of the transports.
type Carrier struct {
	Name string // as people know it, such as nats
	Hub  transport.Hub
}

// A Config is what a Hub is made of.
type Config struct {
	// Carriers are two or more. An agent that has never been anywhere is looked for on the
	// first: best one that keeps its log.
	Carriers []Carrier
	// Path is the file in which it is kept on which carrier each agent is. Its folder is made.
	Path string
	Log  *zap.Logger
}

// A Hub is a transport.Hub made of several. Run runs all of them, and ends with the first
// that ends.
type Hub struct {
	config  Config
	whereis *whereabouts
	serving transport.Serving
}

// New returns a Hub.
func New(c Config) (*Hub, error) {
	switch {
	case len(c.Carriers) < 2:
		return nil, errors.New("multihub: at least two carriers are needed")
	case c.Path == "" || c.Log == nil:
		return nil, errors.New("multihub: a path and a log are needed")
	}
	for i, b := range c.Carriers {
		if b.Hub == nil || b.Name == "" || slices.ContainsFunc(c.Carriers[:i], func(o Carrier) bool { return o.Name == b.Name }) {
			return nil, fmt.Errorf("multihub: carrier %d (%q) has no hub, or no name of its own", i, b.Name)
		}
	}
	return &Hub{config: c, whereis: &whereabouts{path: c.Path}, serving: transport.NewServing()}, nil
}

// Run implements transport.Hub.
func (h *Hub) Run(ctx context.Context) error {
	defer h.serving.End()
	if err := h.whereis.open(); err != nil {
		return err
	}
	defer h.whereis.close() // each note is on disk since it was made
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range h.config.Carriers {
		group.Go(func() error { return c.Hub.Run(ctx) })
	}
	h.serving.Begin()
	return group.Wait()
}

// Link implements transport.Hub. That the agent cannot be awaited on one of the carriers where
// it is not is told by the log, and tried again.
func (h *Hub) Link(ctx context.Context, agent string) (transport.Link, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return nil, fmt.Errorf("multihub: open link to %s: %w", agent, err)
	}
	last, err := h.whereis.of(agent)
	if err != nil {
		return nil, err
	}
	i := max(0, slices.IndexFunc(h.config.Carriers, func(c Carrier) bool { return c.Name == last }))
	first, err := h.config.Carriers[i].Hub.Link(ctx, agent)
	if err != nil {
		return nil, err
	}
	return newLink(h, agent, i, first), nil
}

// Forget implements transport.Hub.
func (h *Hub) Forget(ctx context.Context, agent string) error {
	unknown, known := error(nil), false
	for _, c := range h.config.Carriers {
		switch err := c.Hub.Forget(ctx, agent); {
		case errors.Is(err, transport.ErrUnknown):
			unknown = err
		case err != nil:
			return err
		default:
			known = true
		}
	}
	if !known {
		return unknown
	}
	return h.whereis.forget(agent)
}

// Kept implements transport.Hub.
func (h *Hub) Kept(ctx context.Context) ([]string, error) {
	all := map[string]bool{}
	for _, c := range h.config.Carriers {
		kept, err := c.Hub.Kept(ctx)
		if err != nil {
			return nil, err
		}
		for _, agent := range kept {
			all[agent] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// Troubles implements transport.Troubled.
func (h *Hub) Troubles() (all []transport.Trouble) {
	for _, c := range h.config.Carriers {
		if t, ok := c.Hub.(transport.Troubled); ok {
			all = append(all, t.Troubles()...)
		}
	}
	transport.SortTroubles(all)
	return all
}

// vacate removes what a carrier keeps for an agent that is not there, and opens the Link on which
// it is awaited. It tries until it succeeds or ctx is done.
func (h *Hub) vacate(ctx context.Context, c Carrier, agent string) (transport.Link, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		link, err := vacated(ctx, c, agent)
		if err == nil || ctx.Err() != nil || errors.Is(err, transport.ErrClosed) {
			return link, err
		}
		h.config.Log.Warn("agent is not awaited on a transport yet: it cannot go over to it",
			zap.String("agent", agent), zap.String("transport", c.Name), zap.Duration("again", pause), zap.Error(err))
		if err := wait(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func vacated(ctx context.Context, c Carrier, agent string) (transport.Link, error) {
	if err := c.Hub.Forget(ctx, agent); err != nil && !errors.Is(err, transport.ErrUnknown) {
		return nil, err
	}
	return c.Hub.Link(ctx, agent)
}

// Between attempts.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
