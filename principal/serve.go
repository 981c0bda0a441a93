package principal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// Failures are tried again after a pause that doubles from the first to the last, and
// begins again after something has worked for longer than the last.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// serve runs sessions with an agent, one after the other, until ctx is done.
func (p *Principal) serve(ctx context.Context, s *seat, a backend.Agent) {
	log := p.cfg.Log.With(zap.String("agent", a.Name))
	p.retry(ctx, func() error {
		err := p.attend(ctx, s, a, log)
		if ctx.Err() == nil {
			log.Error("session failed", zap.Error(err))
			p.note(s, Failing, err, nil)
		}
		return err
	})
}

// attend runs one session with an agent.
func (p *Principal) attend(ctx context.Context, s *seat, a backend.Agent, log *zap.Logger) error {
	link, err := p.cfg.Hub.Link(ctx, a.Name)
	if err != nil {
		return fmt.Errorf("principal: open the link to %s: %w", a.Name, err)
	}
	defer link.Close() // nothing is lost by a link that does not close well
	place := p.placement(a)
	run := &live{link: link, began: time.Now()}
	cfg := session.Config{
		Engine: engine.Config{
			Side:  resource.Principal,
			Rules: resource.Rules{Mode: a.Mode, Mismatch: p.cfg.Mismatch},
			Self:  p.cfg.Identity,
			Peer:  a.Name,
			Stale: p.cfg.Stale,
		},
		Link:     link,
		Tick:     p.cfg.Tick,
		Log:      log,
		Key:      p.cfg.Key,
		Protocol: p.cfg.Protocol,
		Letters:  p.cfg.Ledger.Book(a.Name),
		Paces:    p.cfg.Paces,
		Witness:  p.witness(a.Name),
	}
	store := p.cfg.Store
	if place.Destination {
		if store, cfg.Observe, err = p.allotted(ctx, place, link); err != nil {
			return err
		}
	}
	cfg.Store = place.view(store, func() { p.note(s, Serving, nil, run) })
	if run.session, err = session.New(cfg); err != nil {
		return fmt.Errorf("principal: session with %s: %w", a.Name, err)
	}
	ctx, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	beside.Go(func() { p.services(a.Name).Serve(ctx, link.Streams()) })
	return run.session.Run(ctx)
}

// services returns those that an agent may open streams for.
func (p *Principal) services(agent string) proxy.Services {
	if p.cfg.Services == nil {
		return nil
	}
	return p.cfg.Services(agent)
}

// allotted returns what a session with an agent is shown of the hub under destination mapping,
// and what is to be told of the session. What the log towards the agent holds is known first.
func (p *Principal) allotted(ctx context.Context, place Placement, link transport.Link) (backend.Store, func(engine.Event, *engine.Engine), error) {
	log, err := link.Log(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("principal: read the log towards %s: %w", place.Agent, err)
	}
	opened, err := wire.Opened(log, p.cfg.Protocol, p.cfg.Protocol)
	if err != nil { // rows that nobody can read
		p.cfg.Log.Warn("own log is not readable as a whole", zap.String("agent", place.Agent), zap.Error(err))
	}
	if err := p.allot.open(ctx, place, opened); err != nil {
		return nil, nil, err
	}
	return p.allot.of(place.Agent), p.allot.observer(place, opened.Epoch), nil
}

// forget removes all that is kept for an agent that has left. It reports whether it has,
// before ctx was done.
func (p *Principal) forget(ctx context.Context, s *seat, agent string) bool {
	return p.retry(ctx, func() error {
		err := p.cfg.Hub.Forget(ctx, agent)
		if errors.Is(err, transport.ErrUnknown) {
			err = nil // nothing is kept
		}
		if err == nil {
			err = p.cfg.Ledger.Forget(agent)
		}
		if err == nil {
			p.cfg.Journal.Forget(agent)
		}
		if err != nil && ctx.Err() == nil {
			p.cfg.Log.Error("agent not forgotten", zap.String("agent", agent), zap.Error(err))
			p.note(s, Leaving, err, nil)
		}
		return err
	})
}

// retry calls f until it succeeds, and reports whether it did before ctx was done.
func (p *Principal) retry(ctx context.Context, f func() error) bool {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		began := time.Now()
		if f() == nil {
			return true
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
	}
}

func (p *Principal) note(s *seat, state State, err error, run *live) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.status.State, s.status.Err, s.live = state, err, run
}
