package admin

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
)

// How often agents are asked what they have, whether or not a user asks: so that metrics know for
// how long they have lacked something. Who has all there was, and has said nothing since, is not.
const (
	following = time.Second
	perSecond = 100 // how many are asked at most, where there are very many
)

// Follow asks agents what they have of what the hub has said, until ctx is done, and returns its
// cause. It asks only those that are not known to have all, or that have said something since, and
// each process once: one that runs in the wrong mode is told of in the log.
func (s *Server) Follow(ctx context.Context) error {
	told := map[string]hearing{}
	warned := map[string]string{} // of whose process
	pause := following
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		due := undecided(s.cfg.Principal.Agents(), told)
		sides := make([]*Side, len(due))
		each(due, func(i int, a principal.AgentStatus) { sides[i] = s.standing(ctx, a) })
		for i, a := range due {
			if process := a.Session.Peer.Process; sides[i] != nil && sides[i].misplaced && warned[a.Name] != process {
				warned[a.Name] = process
				s.cfg.Log.Warn("an agent runs in another mode than it is registered in", zap.String("agent", a.Name), zap.String("advice", sides[i].Error))
			}
		}
		pause = max(following, time.Duration(len(due))*time.Second/perSecond)
	}
}

// A hearing is when an agent was asked last.
type hearing struct {
	process string       // of the agent
	has     engine.Whole // what it was told that the hub has
}

// undecided returns those agents of which it is not known whether they have all, or that are to be
// told that the hub has all of theirs. It notes that they are.
func undecided(all []principal.AgentStatus, told map[string]hearing) (due []principal.AgentStatus) {
	there := map[string]bool{}
	for _, a := range all {
		there[a.Name] = true
		st := a.Session.Engine
		now := hearing{a.Session.Peer.Process, st.Has}
		if !a.Session.Connected || st.Backlog == 0 && !st.Sure.IsZero() && told[a.Name] == now {
			continue
		}
		told[a.Name] = now
		due = append(due, a)
	}
	for name := range told {
		if !there[name] {
			delete(told, name)
		}
	}
	return due
}
