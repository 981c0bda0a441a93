package admin

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// thought is how long an agent may take to answer about its plan, and to see what it has
// adopted written.
const thought = 45 * time.Second

// plan asks an agent what it would change.
func (s *Server) plan(r *http.Request) (any, error) {
	name := r.PathValue("agent")
	ctx, stop := context.WithTimeoutCause(r.Context(), thought, errSlow)
	defer stop()
	p, err := s.spoke(name).Plan(ctx)
	if err != nil {
		return nil, err
	}
	return Plan{name, p}, nil
}

// adopt has an agent write objects although it observes, or no more.
func (s *Server) adopt(r *http.Request) (any, error) {
	var want Adoption
	if err := read(r, &want); err != nil {
		return nil, err
	}
	name := r.PathValue("agent")
	a, err := s.cfg.Principal.Agent(name)
	if err != nil {
		return nil, err
	}
	place, ask := s.cfg.Principal.Placement(a), inquiry.Adoption{All: want.All, Undo: want.Undo}
	for _, o := range want.Objects {
		k := resource.Key{Kind: resource.Kind(o.Kind), Namespace: o.Namespace, Name: o.Name}
		if linked, ok := place.Out(k); ok { // else it is named as on the link, or in vain
			k = linked
		}
		ask.Keys = append(ask.Keys, k)
	}
	ctx, stop := context.WithTimeoutCause(r.Context(), thought, errSlow)
	defer stop()
	done, err := s.spoke(name).Adopt(ctx, ask)
	if err != nil {
		return nil, err
	}
	s.cfg.Log.Info("adoption is decided", zap.String("agent", name), zap.Bool("undo", want.Undo), zap.Strings("objects", done.Done))
	return done, nil
}
