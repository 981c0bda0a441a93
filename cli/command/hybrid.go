package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/principal/hybrid"
)

// A warden looks whether an application-controller of the control plane would reconcile
// agents' Applications. A principal does not start beside one. One that comes later is told
// to the log and by a metric, and nothing else is done about it: a principal that ended would
// leave the Applications to that controller altogether.
type warden struct {
	controllers func(context.Context) ([]hybrid.Controller, error) // nil: there is no cluster to have any
	destination bool                                               // see hybrid.Hub
	log         *zap.Logger

	conflict atomic.Bool // as it was found last
	told     string      // what the log knows
}

// wardenInterval is how often a warden looks for what has come since.
const wardenInterval = 10 * time.Second

// admit returns why a principal must not start, if so. That it may not look is no reason,
// and is told to the log.
func (w *warden) admit(ctx context.Context, registry backend.Registry) error {
	conflict, err := w.look(ctx, func() ([]string, error) { return registered(ctx, registry) })
	switch {
	case errors.Is(err, fs.ErrPermission):
		w.tell(nil, err)
		return nil
	case err != nil:
		return err
	}
	return conflict
}

// run looks again and again, until ctx is done, and returns its cause.
func (w *warden) run(ctx context.Context, agents func() []string) error {
	look := time.NewTicker(wardenInterval)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		conflict, err := w.look(ctx, func() ([]string, error) { return agents(), nil })
		if ctx.Err() == nil {
			w.tell(conflict, err)
		}
	}
}

// look returns which conflict there is, nil if there is none, or why that is not known. Only
// a controller has it ask for the agents.
func (w *warden) look(ctx context.Context, agents func() ([]string, error)) (conflict, err error) {
	if w.controllers == nil {
		return nil, nil
	}
	hub := hybrid.Hub{Destination: w.destination}
	if hub.Controllers, err = w.controllers(ctx); err != nil {
		return nil, err
	}
	if len(hub.Controllers) > 0 {
		if hub.Agents, err = agents(); err != nil {
			return nil, err
		}
	}
	conflict = hub.Check()
	w.conflict.Store(conflict != nil)
	return conflict, nil
}

// tell tells the log what was found, if it is news.
func (w *warden) tell(conflict, err error) {
	now := ""
	if found := errors.Join(conflict, err); found != nil {
		now = found.Error()
	}
	if now == w.told {
		return
	}
	w.told = now
	switch {
	case conflict != nil:
		w.log.Error("a controller of the control plane reconciles agents' Applications", zap.Error(conflict))
	case err != nil:
		w.log.Warn("it is not known whether a controller of the control plane reconciles agents' Applications", zap.Error(err),
			zap.String("advice", "let the principal list StatefulSets and Deployments, and get ConfigMap argocd-cmd-params-cm, in the namespace of Argo CD, as deploy/principal/rbac.yaml does"))
	default:
		w.log.Info("no controller of the control plane reconciles agents' Applications any more")
	}
}

// errListed ends a watch of a registry.
var errListed = errors.New("the registry has been listed")

// registered returns the names of the agents that are registered now.
func registered(ctx context.Context, r backend.Registry) (names []string, err error) {
	agents, err := listed(ctx, r)
	for _, a := range agents {
		names = append(names, a.Name)
	}
	return names, err
}

// listed returns the agents that are registered now.
func listed(ctx context.Context, r backend.Registry) (agents []backend.Agent, err error) {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it was not listed in %v", patience))
	defer cancel()
	err = r.Watch(ctx, func(all []backend.Agent) error {
		agents = all
		return errListed
	})
	if errors.Is(err, errListed) {
		return agents, nil
	}
	return nil, fmt.Errorf("command: list the registry of agents: %w", err)
}
