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
	all, err := p.objects(ctx, agent, func(o resource.Object) (resource.Object, bool) { return o, p.allot.holds(o, agent) })
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
	released := func(o resource.Object) {
		p.cfg.Log.Warn("a deletion is forced: nobody has deleted the copy, or what it has deployed", zap.String("agent", agent),
			zap.Stringer("key", o.Key), zap.String("uid", o.UID), zap.String("reason", why))
	}
	if err := letGo(ctx, p.cfg.Store, backend.Scope{Namespaces: p.Placement(st).Namespaces()}, waiting, released); err != nil {
		return fail(err)
	}
	return waiting, nil
}

// tries is how often an object is read and written that somebody else changes meanwhile: a
// controller's status, or what this very process has to say of it.
const tries = 5

// letGo takes the finalizers off those objects within scope that are waiting, by their UIDs,
// and calls released for each. One that does not wait any more is let be. The store's own
// objects are read, past what an agent sees of them.
func letGo(ctx context.Context, store backend.Store, scope backend.Scope, waiting []engine.Absent, released func(resource.Object)) error {
	for try := 1; ; try++ {
		all, err := verify.Read(ctx, store, scope)
		if err != nil {
			return err
		}
		var contested error
		for _, o := range all {
			m := resource.ParseMetadata(o.Parts[resource.Meta])
			if !o.Deleting || len(m.Finalizers) == 0 || !slices.ContainsFunc(waiting, func(w engine.Absent) bool { return w.UID == o.UID }) {
				continue
			}
			m.Finalizers = nil
			o.Parts[resource.Meta] = m.Text()
			switch _, err := store.Write(ctx, o); {
			case err == nil:
				released(o)
			case errors.Is(err, backend.ErrConflict):
				contested = fmt.Errorf("%s: %w", o.Key, err)
			default:
				return fmt.Errorf("%s: %w; the log says which others are released", o.Key, err)
			}
		}
		if contested == nil {
			return nil
		}
		if try == tries {
			return fmt.Errorf("%w, %d times; the log says which others are released", contested, tries)
		}
	}
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
