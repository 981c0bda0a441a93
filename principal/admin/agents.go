package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
)

func (s *Server) agents(r *http.Request) (any, error) {
	all := s.cfg.Principal.Agents()
	out := Agents{Principal: s.self(), Agents: make([]Agent, len(all))}
	ctx, stop := context.WithTimeoutCause(r.Context(), allTogether, errSlow)
	defer stop()
	each(all, func(i int, a principal.AgentStatus) {
		out.Agents[i] = s.look(ctx, a)
	})
	return out, nil
}

// self says how the principal stands.
func (s *Server) self() (out Self) {
	if s.cfg.Self != nil {
		out = s.cfg.Self()
	}
	out.Identity = s.cfg.Principal.Identity()
	for _, t := range s.cfg.Principal.Troubles("") {
		out.Troubles = append(out.Troubles, troubled(t))
	}
	return out
}

func troubled(t transport.Trouble) string {
	return fmt.Sprintf("%s, since %s: %v", t.What, t.Since.UTC().Format(time.RFC3339), t.Err)
}

func (s *Server) agent(r *http.Request) (any, error) {
	a, err := s.cfg.Principal.Agent(r.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	out := s.look(r.Context(), a)
	waiting, err := s.cfg.Principal.Waiting(r.Context(), a.Name)
	if err != nil {
		return nil, err
	}
	if out.Waiting = held(HubSide, waiting); len(waiting) > 0 {
		out.WaitingOf = string(engine.HeldDigest(waiting))
	}
	return out, nil
}

// look says how an agent stands as the principal sees it, and as the agent sees it itself.
func (s *Server) look(ctx context.Context, a principal.AgentStatus) Agent {
	spoke := s.standing(ctx, a)
	if now, err := s.cfg.Principal.Agent(a.Name); err == nil && spoke != nil {
		a = now // it is known by now what the agent has
	}
	out := describe(a)
	if s.cfg.Expires != nil {
		out.Expires = s.cfg.Expires(a.Name)
	}
	if out.Spoke = spoke; spoke != nil {
		out.Up = spoke.Says
	}
	if a.State == principal.Serving && out.Spoke != nil && out.Spoke.Observing {
		out.State = "observing"
	}
	return out
}

// release lets deletions go that wait for an agent which is gone.
func (s *Server) release(r *http.Request) (any, error) {
	var want Release
	if err := read(r, &want); err != nil {
		return nil, err
	}
	if want.Reason == "" {
		return nil, fmt.Errorf("admin: %w: a reason is needed", errRequest)
	}
	done, err := s.cfg.Principal.Release(r.Context(), r.PathValue("agent"), resource.Digest(want.WaitingOf), want.Reason)
	return Released{held(HubSide, done)}, err
}

// describe says how an agent stands as the principal sees it.
func describe(a principal.AgentStatus) Agent {
	st := a.Session
	out := Agent{
		Name: a.Name, Mode: a.Mode.String(), State: a.State.String(),
		Connected: st.Connected, Since: st.Since, Version: st.Peer.Version, Process: st.Peer.Process,
		Hub: Side{
			InStep: st.Engine.InStep, Rows: st.Engine.Rows, Copied: st.Engine.Copied,
			Retrying: st.Engine.Failed, DeadLetters: st.DeadLetters, Waiting: st.Engine.Waiting,
		},
		Held: []Held{},
		Down: Flow{Known: a.State == principal.Serving, Whole: !st.Engine.Sure.IsZero(), Backlog: st.Engine.Backlog},
	}
	if at := st.Engine.Oldest; !at.IsZero() {
		out.Down.Lag = time.Since(at).Seconds()
	}
	if p := st.Peer; p.Newest > 0 {
		out.Protocol = &Protocol{p.Oldest, p.Newest}
	}
	for _, t := range a.Troubles {
		out.Error = troubled(t)
	}
	for _, err := range []error{st.Err, a.Err} {
		if err != nil {
			out.Error = err.Error()
		}
	}
	out.Held = append(held(SpokeSide, st.Engine.Theirs), held(HubSide, st.Engine.Held)...)
	if len(out.Held) > 0 {
		out.HeldOf = string(engine.HeldDigest(a.Held()))
	}
	return out
}

func held(side string, those []engine.Absent) []Held {
	out := make([]Held, 0, len(those))
	for _, a := range those {
		out = append(out, Held{side, a.Key.String(), a.UID})
	}
	return out
}

// approve has the deletions carried out that the user has seen.
func (s *Server) approve(r *http.Request) (any, error) {
	var want Approval
	if err := read(r, &want); err != nil {
		return nil, err
	}
	name := r.PathValue("agent")
	before, err := s.cfg.Principal.Agent(name)
	if err != nil {
		return nil, err
	}
	all, err := s.cfg.Principal.Approve(r.Context(), name, resource.Digest(want.HeldOf))
	if err != nil {
		return nil, err
	}
	s.cfg.Log.Warn("held deletions are approved", zap.String("agent", name), zap.Int("copies", len(all)), zap.Stringer("first", all[0].Key))
	return Approved{describe(before).Held}, nil
}
