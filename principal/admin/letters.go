package admin

import (
	"context"
	"fmt"
	"net/http"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
)

// desk returns the letters of one side of the link to an agent.
func (s *Server) desk(agent, side string) (inquiry.Letters, error) {
	switch side {
	case HubSide:
		book, err := s.cfg.Principal.Letters(agent)
		return inquiry.Desk{Book: book, Again: func(ctx context.Context, key string) error {
			return s.cfg.Principal.Retry(ctx, agent, key)
		}}, err
	case SpokeSide:
		return s.spoke(agent), nil
	}
	return nil, fmt.Errorf("admin: %w: side %q is neither hub nor spoke", errRequest, side)
}

// letters returns the letters of one agent, or of all.
func (s *Server) letters(r *http.Request) (any, error) {
	agents := s.cfg.Principal.Agents()
	if name := r.FormValue("agent"); name != "" {
		one, err := s.cfg.Principal.Agent(name)
		if err != nil {
			return nil, err
		}
		agents = []principal.AgentStatus{one}
	}
	found, unread := make([][]Letter, len(agents)), make([]error, len(agents))
	each(agents, func(i int, a principal.AgentStatus) {
		found[i], unread[i] = s.lettersOf(r.Context(), a.Name)
	})
	out := Letters{Letters: []Letter{}, Unread: map[string]string{}}
	for i, a := range agents {
		out.Letters = append(out.Letters, found[i]...)
		if unread[i] != nil {
			out.Unread[a.Name] = s.explain(a.Name, unread[i]).Error()
		}
	}
	return out, nil
}

// lettersOf returns the letters of both sides of the link to an agent, and why those of one
// side are not among them.
func (s *Server) lettersOf(ctx context.Context, agent string) (out []Letter, unread error) {
	ctx, stop := context.WithTimeoutCause(ctx, patience, errSlow)
	defer stop()
	for _, side := range []string{HubSide, SpokeSide} {
		desk, err := s.desk(agent, side)
		if err != nil {
			return out, err
		}
		list, err := desk.List(ctx)
		if err != nil {
			return out, err
		}
		for _, l := range list {
			out = append(out, Letter{agent, side, l})
		}
	}
	return out, nil
}

func (s *Server) letter(r *http.Request) (any, error) {
	agent, side := r.PathValue("agent"), r.PathValue("side")
	desk, err := s.desk(agent, side)
	if err != nil {
		return nil, err
	}
	l, err := desk.Get(r.Context(), r.PathValue("id"))
	return Letter{agent, side, l}, err
}

// change has a letter retried or dropped.
func (s *Server) change(r *http.Request) (any, error) {
	var empty struct{}
	if err := read(r, &empty); err != nil {
		return nil, err
	}
	agent, side, id := r.PathValue("agent"), r.PathValue("side"), r.PathValue("id")
	desk, err := s.desk(agent, side)
	if err != nil {
		return nil, err
	}
	l, err := desk.Get(r.Context(), id)
	if err != nil {
		return nil, err
	}
	did := ""
	switch r.PathValue("change") {
	case "retry":
		did, err = "a dead letter is retried", desk.Retry(r.Context(), id)
	case "drop":
		did, err = "a dead letter is dropped", desk.Drop(r.Context(), id)
	default:
		err = fmt.Errorf("admin: %w: a letter is retried or dropped", errRequest)
	}
	if err != nil {
		return nil, err
	}
	s.cfg.Log.Info(did, zap.String("agent", agent), zap.String("side", side), zap.String("id", id),
		zap.String("key", l.Key), zap.String("cause", string(l.Cause)))
	return empty, nil
}
