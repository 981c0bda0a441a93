package principal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// What a user may ask of a Principal fails with these, given wrapped.
var (
	ErrUnknown = transport.ErrUnknown
	ErrNotYet  = fmt.Errorf("its session does not run: %w", transport.ErrAway)
	ErrNothing = errors.New("nothing is held")
	ErrChanged = errors.New("what is held has changed since it was shown")
)

// Identity returns the hub's.
func (p *Principal) Identity() string { return p.cfg.Identity }

// Held returns the deletions that the agent holds back, and those that are held back here
// for it.
func (a AgentStatus) Held() []engine.Absent {
	return slices.Concat(a.Session.Engine.Theirs, a.Session.Engine.Held)
}

// Approve has the deletions carried out that an agent holds back, or that are held back
// here for it, and returns them. of is the digest of what AgentStatus.Held has shown, see
// engine.HeldDigest: nobody approves what he has not seen.
func (p *Principal) Approve(ctx context.Context, agent string, of resource.Digest) ([]engine.Absent, error) {
	fail := func(err error) ([]engine.Absent, error) {
		return nil, fmt.Errorf("principal: approve deletions of %s: %w", agent, err)
	}
	l, err := p.live(agent)
	if err != nil {
		return fail(err)
	}
	st := AgentStatus{Session: l.session.Status()}
	all := st.Held()
	switch {
	case len(all) == 0:
		return fail(ErrNothing)
	case engine.HeldDigest(all) != of:
		return fail(ErrChanged)
	}
	for _, held := range [][]engine.Absent{st.Session.Engine.Theirs, st.Session.Engine.Held} {
		if len(held) == 0 {
			continue
		}
		if err := l.session.Approve(ctx, engine.HeldDigest(held)); err != nil {
			return fail(err)
		}
	}
	return all, nil
}

// Confirm takes in that an agent's process says to have had a whole table of the hub's.
func (p *Principal) Confirm(ctx context.Context, agent string, table engine.Whole) error {
	l, err := p.live(agent)
	if err == nil {
		err = l.session.Confirm(ctx, table)
	}
	if err != nil {
		return fmt.Errorf("principal: agent %s: %w", agent, err)
	}
	return nil
}

// Letters returns the dead letters of the hub's side of the link to an agent.
func (p *Principal) Letters(agent string) (*ledger.Book, error) {
	if _, err := p.registered(agent); err != nil {
		return nil, fmt.Errorf("principal: letters of %q: %w", agent, err)
	}
	return p.cfg.Ledger.Book(agent), nil
}

// Retry has what could not be done here for a key of an agent's tried again. The key is as
// it stands in a dead letter.
func (p *Principal) Retry(ctx context.Context, agent, key string) error {
	l, err := p.live(agent)
	if err == nil {
		err = l.session.Retry(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("principal: agent %s: %w", agent, err)
	}
	return nil
}

// Objects returns what the hub has of an agent's objects by now, as they are on the link,
// sorted by key. They are read from the store, past the agent's session.
func (p *Principal) Objects(ctx context.Context, agent string) ([]resource.Object, error) {
	return p.objects(ctx, agent, func(o resource.Object) (resource.Object, bool) { return p.allot.aims(o, agent) })
}

// objects does so of those Applications that are chosen under destination mapping.
func (p *Principal) objects(ctx context.Context, agent string, as func(resource.Object) (resource.Object, bool)) ([]resource.Object, error) {
	a, err := p.registered(agent)
	if err != nil {
		return nil, fmt.Errorf("principal: objects of %q: %w", agent, err)
	}
	place, store := p.placement(a), p.cfg.Store
	if place.Destination {
		store = chosen{store, as}
	}
	return verify.Read(ctx, place.view(store, func() {}), backend.Scope{})
}

// Open opens a stream for a service of an agent's process. It is a proxy.Opener.
func (p *Principal) Open(ctx context.Context, agent, service string) (net.Conn, error) {
	l, err := p.live(agent)
	if err != nil {
		return nil, fmt.Errorf("principal: open a stream to %q: %w", agent, err)
	}
	return l.link.Streams().Open(ctx, service)
}

// registered returns an agent as it is registered.
func (p *Principal) registered(agent string) (backend.Agent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seats[agent]
	if s == nil || s.want == nil {
		return backend.Agent{}, ErrUnknown
	}
	return *s.want, nil
}

// live returns what runs for an agent.
func (p *Principal) live(agent string) (*live, error) {
	if _, err := p.registered(agent); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.seats[agent]; s != nil && s.live != nil {
		return s.live, nil
	}
	return nil, ErrNotYet
}
