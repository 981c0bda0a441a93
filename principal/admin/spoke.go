package admin

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
)

// How many agents are asked at once, and for how long each is waited for, and all of them, where
// all are.
const (
	atOnce      = 32
	moment      = 2 * time.Second
	allTogether = 10 * time.Second
)

// spoke returns whom to ask what an agent itself knows.
func (s *Server) spoke(agent string) *inquiry.Client {
	return inquiry.NewClient(func(ctx context.Context) (net.Conn, error) {
		return s.cfg.Principal.Open(ctx, agent, inquiry.Service)
	})
}

// each calls f for each agent, for some at once.
func each(agents []principal.AgentStatus, f func(i int, a principal.AgentStatus)) {
	var all sync.WaitGroup
	defer all.Wait()
	turn := make(chan struct{}, atOnce)
	for i, a := range agents {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			f(i, a)
		})
	}
}

// standing returns how an agent stands as it sees that itself; nil if it does not say. What each
// side has had of the other's table is known to both from then on.
func (s *Server) standing(ctx context.Context, a principal.AgentStatus) *Side {
	if !a.Session.Connected {
		return nil
	}
	ctx, stop := context.WithTimeoutCause(ctx, moment, errSlow)
	defer stop()
	st, err := s.spoke(a.Name).Standing(ctx, string(a.Session.Engine.Has))
	if err == nil && st.Has != "" {
		err = s.cfg.Principal.Confirm(ctx, a.Name, engine.Whole(st.Has))
	}
	if err != nil {
		return &Side{Error: s.explain(a.Name, err).Error()}
	}
	out := &Side{
		InStep: st.InStep, Rows: st.Rows, Copied: st.Copied, Retrying: st.Retrying, DeadLetters: st.DeadLetters,
		Observing: st.Observing, Withheld: st.Withheld, Error: st.Error,
		Says: Flow{Known: st.Has != "", Whole: st.Sure, Backlog: st.Backlog, Lag: st.Lag},
	}
	if text := otherMode(a.Mode, st.Mode); text != "" {
		out.Error, out.misplaced = text, true
	}
	return out
}

var errSlow = errors.New("it does not answer in time")
