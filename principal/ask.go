package principal

import (
	"context"
	"errors"
	"fmt"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/session"
)

// What a user may ask of a Principal, given wrapped.
var (
	ErrUnknown = errors.New("no such agent is registered")
	ErrNotYet  = errors.New("its session does not run")
	ErrNothing = errors.New("nothing is held")
)

// Approve has the deletions carried out that an agent holds back, or that are held back
// here for it, and returns them.
func (p *Principal) Approve(ctx context.Context, agent string) ([]engine.Absent, error) {
	fail := func(err error) ([]engine.Absent, error) {
		return nil, fmt.Errorf("principal: approve deletions of %s: %w", agent, err)
	}
	s, err := p.session(agent)
	if err != nil {
		return fail(err)
	}
	st := s.Status().Engine
	var all []engine.Absent
	for _, held := range [][]engine.Absent{st.Theirs, st.Held} {
		if len(held) == 0 {
			continue
		}
		if err := s.Approve(ctx, engine.HeldDigest(held)); err != nil {
			return fail(err)
		}
		all = append(all, held...)
	}
	if len(all) == 0 {
		return fail(ErrNothing)
	}
	return all, nil
}

// Retry has what could not be done here for a key of an agent's tried again. The key is as
// it stands in a dead letter.
func (p *Principal) Retry(ctx context.Context, agent, key string) error {
	s, err := p.session(agent)
	if err == nil {
		err = s.Retry(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("principal: agent %s: %w", agent, err)
	}
	return nil
}

// session returns the session with an agent.
func (p *Principal) session(agent string) (*session.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seats[agent]
	switch {
	case s == nil || s.want == nil:
		return nil, ErrUnknown
	case s.session == nil:
		return nil, ErrNotYet
	}
	return s.session, nil
}
