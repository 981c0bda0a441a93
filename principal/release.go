package principal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
)

// ErrThere says that an agent is there, and so that nothing has to be forced.
var ErrThere = errors.New("the agent is there, and carries out what is deleted")

// Waiting returns which of the hub's objects are deleted, and wait until the agent has
// deleted their copies and all that these have deployed; sorted by key. They are read from
// the store.
func (p *Principal) Waiting(ctx context.Context, agent string) ([]engine.Absent, error) {
	a, err := p.registered(agent)
	if err != nil {
		return nil, fmt.Errorf("principal: deletions of %q: %w", agent, err)
	}
	all, err := p.objects(ctx, agent, func(o resource.Object) bool { return p.allot.holds(o, agent) })
	if err != nil {
		return nil, err
	}
	var waiting []engine.Absent
	for _, o := range all {
		if o.Deleting && (resource.Rules{Mode: a.Mode}).Confirmed(o.Key.Kind) && len(resource.ParseMetadata(o.Parts[resource.Meta]).Finalizers) > 0 {
			waiting = append(waiting, engine.Absent{Key: o.Key, UID: o.UID})
		}
	}
	return waiting, nil
}

// Release lets the hub's objects go that are Waiting for an agent, and returns them: of is
// the digest of what Waiting has shown, see engine.HeldDigest, and why is for the log. It is
// for an agent that is gone for good. If it comes back all the same its copies go, and what
// they have deployed stays.
func (p *Principal) Release(ctx context.Context, agent string, of resource.Digest, why string) ([]engine.Absent, error) {
	fail := func(err error) ([]engine.Absent, error) {
		return nil, fmt.Errorf("principal: release deletions of %s: %w", agent, err)
	}
	st, err := p.Agent(agent)
	if err != nil {
		return nil, err
	}
	waiting, err := p.Waiting(ctx, agent)
	switch {
	case err != nil:
		return nil, err
	case st.Session.Connected:
		return fail(ErrThere)
	case len(waiting) == 0:
		return fail(ErrNothing)
	case engine.HeldDigest(waiting) != of:
		return fail(ErrChanged)
	}
	if other := p.sharer(waiting); other != "" {
		return fail(fmt.Errorf("agent %s: %w", other, ErrThere))
	}
	// The hub's own objects are read again, past what an agent sees of them.
	all, err := verify.Read(ctx, p.cfg.Store, backend.Scope{Namespaces: p.Placement(st).Namespaces()})
	if err != nil {
		return fail(err)
	}
	for _, o := range all {
		i := slices.IndexFunc(waiting, func(w engine.Absent) bool { return w.UID == o.UID })
		if i < 0 {
			continue
		}
		m := resource.ParseMetadata(o.Parts[resource.Meta])
		m.Finalizers = nil
		o.Parts[resource.Meta] = m.Text()
		if _, err := p.cfg.Store.Write(ctx, o); err != nil {
			return fail(fmt.Errorf("%s: %w; those before it are released", o.Key, err))
		}
		p.cfg.Log.Warn("a deletion is forced: nobody has deleted the copy, or what it has deployed", zap.String("agent", agent),
			zap.Stringer("key", o.Key), zap.String("uid", o.UID), zap.String("reason", why))
	}
	return waiting, nil
}

// sharer returns an agent that is there and may have one of these Applications too, as it is
// on its way from one to another; "" if there is none.
func (p *Principal) sharer(waiting []engine.Absent) string {
	if p.allot == nil {
		return ""
	}
	for _, w := range waiting {
		for _, agent := range p.allot.holders(w.UID) {
			if st, err := p.Agent(agent); err == nil && st.Session.Connected {
				return agent
			}
		}
	}
	return ""
}
