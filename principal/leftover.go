package principal

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
)

// leftovers returns the agents for which something is kept although they are not in the
// first set that the registry shows: they were removed while no principal ran. A hub that
// is not the one that has kept it, or that knows of no agent at all, may be looking in the
// wrong place, and forgets nothing.
func (p *Principal) leftovers(ctx context.Context, set []backend.Agent) []string {
	before, err := p.cfg.Ledger.Claim(p.cfg.Identity)
	if err != nil {
		p.cfg.Log.Warn("what is kept for agents that have left stays", zap.Error(err))
		return nil
	}
	kept, err := p.cfg.Hub.Kept(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.cfg.Log.Warn("what is kept for agents that have left stays", zap.Error(err))
		}
		return nil
	}
	left := slices.DeleteFunc(kept, func(name string) bool {
		return slices.ContainsFunc(set, func(a backend.Agent) bool { return a.Name == name })
	})
	if len(left) > 0 && (len(set) == 0 || before != p.cfg.Identity) {
		p.cfg.Log.Warn("agents are not registered any more, and what is kept for them stays", zap.Strings("agents", left),
			zap.String("advice", "see that the principal looks in the right namespace of the right cluster; if it does, it forgets them at its next start with an agent registered"))
		return nil
	}
	return left
}
