package admin

import (
	"context"
	"time"

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
// cause. It asks only those that are not known to have all, or that have said something since.
func (s *Server) Follow(ctx context.Context) error {
	told := map[string]engine.Whole{} // what each agent was told last that the hub has
	pause := following
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		due := undecided(s.cfg.Principal.Agents(), told)
		each(due, func(_ int, a principal.AgentStatus) { s.standing(ctx, a) })
		pause = max(following, time.Duration(len(due))*time.Second/perSecond)
	}
}

// undecided returns those agents of which it is not known whether they have all, or that are to be
// told that the hub has all of theirs. It notes that they are.
func undecided(all []principal.AgentStatus, told map[string]engine.Whole) (due []principal.AgentStatus) {
	there := map[string]bool{}
	for _, a := range all {
		there[a.Name] = true
		st := a.Session.Engine
		if !a.Session.Connected || st.Backlog == 0 && !st.Sure.IsZero() && told[a.Name] == st.Has {
			continue
		}
		told[a.Name] = st.Has
		due = append(due, a)
	}
	for name := range told {
		if !there[name] {
			delete(told, name)
		}
	}
	return due
}
