package principal

import (
	"context"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// interval is how often a Principal looks at how its agents stand.
const interval = 10 * time.Second

// watch tells the log, until ctx is done, of agents that do not delete what the hub no
// longer has: their users wait for somebody here.
func (p *Principal) watch(ctx context.Context) error {
	look := time.NewTicker(interval)
	defer look.Stop()
	told := map[string]resource.Digest{}
	for {
		select {
		case <-look.C:
			p.tellOfHeld(told)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tellOfHeld tells of lists of held deletions that are not told.
func (p *Principal) tellOfHeld(told map[string]resource.Digest) {
	now := map[string]resource.Digest{}
	for _, a := range p.Agents() {
		held := a.Session.Engine.Theirs
		if len(held) == 0 {
			continue
		}
		now[a.Name] = engine.HeldDigest(held)
		if told[a.Name] != now[a.Name] {
			p.cfg.Log.Warn("an agent holds deletions", zap.String("agent", a.Name), zap.Int("copies", len(held)),
				zap.Stringer("first", held[0].Key),
				zap.String("advice", "the agent has so many Applications which are not here that they may have been lost here: make them again, or approve it: argocd-agentctl agent approve-deletions"))
		}
	}
	clear(told)
	maps.Copy(told, now)
}
