package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

const (
	hubIdentity = "demo-hub"
	argocd      = "argocd" // the namespace of Argo CD on a spoke
	tick        = 250 * time.Millisecond
	heartbeat   = 2 * time.Second
)

// A world is a principal, agents and their clusters in one process. The clusters are
// stores in memory; programs, messages, certificates and disks are real.
type world struct {
	dir     string
	log     *zap.Logger
	parts   *errgroup.Group
	ctx     context.Context // of parts
	traffic traffic
	carrier Carrier

	hub       *memstore.Store
	principal *principal.Principal
	spokes    []*spoke // the managed ones, and last the autonomous one
}

// A spoke is an agent with its cluster.
type spoke struct {
	backend.Agent
	cluster *memstore.Store
	liar    *liar // what the agent sees of the cluster
	line    *line
	stop    func() error // ends the agent's program
}

// newWorld starts all programs, which end with ctx. The first spoke's store tells the lie
// once it is armed.
func newWorld(ctx context.Context, dir string, c Config) (*world, error) {
	w := &world{dir: dir, log: c.Log, carrier: c.Carrier, hub: memstore.New(memstore.Config{Name: "hub"})}
	w.parts, w.ctx = errgroup.WithContext(ctx)
	var roster roster
	for i := range c.Agents {
		roster = append(roster, backend.Agent{Name: fmt.Sprintf("edge-%d", i+1), Mode: resource.Managed})
	}
	roster = append(roster, backend.Agent{Name: "plant", Mode: resource.Autonomous})
	var names []string
	for _, a := range roster {
		names = append(names, a.Name)
	}
	if err := throwaway.Issue(w.pki(), names...); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	address, err := w.startPrincipal(roster)
	for i, a := range roster {
		if err == nil {
			lie := None
			if i == 0 {
				lie = c.Lie
			}
			err = w.startSpoke(a, address, lie)
		}
	}
	if err != nil {
		w.parts.Go(func() error { return err }) // ends the others
		return nil, w.wait()
	}
	return w, nil
}

// pki is where the certificates are.
func (w *world) pki() string { return filepath.Join(w.dir, "pki") }

// startSpoke starts a cluster, the line to it, and its agent.
func (w *world) startSpoke(a backend.Agent, principal string, l Lie) error {
	cluster := memstore.New(memstore.Config{Name: a.Name})
	line, err := newLine(principal)
	if err != nil {
		return err
	}
	s := &spoke{Agent: a, cluster: cluster, liar: newLiar(cluster, l), line: line}
	w.spokes = append(w.spokes, s)
	w.parts.Go(func() error { return line.Run(w.ctx) })
	w.parts.Go(func() error { return controller{cluster}.Run(w.ctx) })
	return w.startAgent(s)
}

// startPrincipal returns the address that the principal listens on.
func (w *world) startPrincipal(r roster) (string, error) {
	own, err := throwaway.Files(w.pki(), throwaway.Principal).Credentials(time.Now())
	if err != nil {
		return "", err
	}
	log := w.log.Named("principal")
	hub, err := w.carrier.ends().hub(w, own, log)
	if err != nil {
		return "", err
	}
	w.principal, err = principal.New(principal.Config{
		Namespace: "argocd",
		Identity:  hubIdentity, Hub: tappedHub{hub, &w.traffic}, Store: w.hub, Registry: r, Tick: tick, Log: log,
	})
	if err != nil {
		return "", err
	}
	w.parts.Go(func() error { return w.principal.Run(w.ctx) })
	return hub.Addr(w.ctx)
}

// startAgent starts an agent's program, on the disk that the one before has left. It waits
// until its messages are there, and not for the principal.
func (w *world) startAgent(s *spoke) error {
	own, err := throwaway.Files(w.pki(), s.Name).Credentials(time.Now())
	if err != nil {
		return err
	}
	log := w.log.Named(s.Name)
	dialer, err := w.carrier.ends().dialer(w, s, own, log)
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Config{
		Name: s.Name, Namespace: argocd, Dialer: tappedDialer{dialer, &w.traffic}, Store: s.liar,
		Rules: resource.Rules{Mode: s.Mode, Adopt: true}, Tick: tick, Log: log,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	w.parts.Go(func() error {
		err := a.Run(ctx)
		ended <- err
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	s.stop = func() error {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	return until(w.ctx, patience, s.Name+" to start", func() bool { return a.Ready() == nil })
}

// wait waits until all parts have ended, as they do once the world's context is done or
// one of them has failed, and returns why one has.
func (w *world) wait() error {
	if err := w.parts.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// A roster is a registry that never changes.
type roster []backend.Agent

// Watch implements backend.Registry.
func (r roster) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	if err := f(r); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}
