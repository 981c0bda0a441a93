package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

const (
	tick     = time.Second      // as the programs have it
	patience = 60 * time.Second // with what must come
)

// A world is a principal in this process, and agents in another.
type world struct {
	Settings
	dir     string
	quota   int64
	mem     *memstore.Store // the hub's, unless it is an API server
	hub     *hubStore       // as the principal sees it
	roster  *roster
	applied *applied // by the agents
	agents  *fleet.Process
	server  string // the first agent's API server

	parts     *errgroup.Group
	ctx       context.Context // of parts
	finish    context.CancelFunc
	principal *principal.Principal
	address   string // of the principal
	leave     context.CancelFunc
	left      chan struct{} // closed once the principal has ended
}

// start starts a principal and agents, and returns without waiting for them to meet. Of the
// order it fills in what is in the Settings.
func (s Settings) start(ctx context.Context, o fleet.Order, quota int64) (*world, error) {
	w := &world{
		Settings: s, quota: quota, mem: memstore.New(memstore.Config{Name: "hub"}),
		roster: newRoster(s.Agents, cmp.Or(o.First, s.Agents)), applied: newApplied(s.Agents * s.Apps),
	}
	w.hub = newHubStore(w.mem, s.Agents, s.Apps)
	ctx, w.finish = context.WithCancel(ctx)
	w.parts, w.ctx = errgroup.WithContext(ctx)
	if err := w.startBoth(o); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

func (w *world) startBoth(o fleet.Order) (err error) {
	if w.dir, err = os.MkdirTemp("", "argocd-agent-bench-"); err != nil {
		return err
	}
	var names []string
	for _, a := range w.roster.all {
		names = append(names, a.Name)
	}
	if err := throwaway.Issue(w.dir, names...); err != nil {
		return err
	}
	if w.Kubeconfig != "" {
		if err := w.useCluster(); err != nil {
			return err
		}
	}
	if err := w.serve(); err != nil {
		return err
	}
	if w.agents, err = fleet.Launch(w.ctx, w.Command); err != nil {
		return err
	}
	o.Dir, o.Principal, o.Carrier, o.Agents, o.Apps, o.Kubeconfig = w.dir, w.address, w.Transport, w.Agents, w.Apps, w.Kubeconfig
	if w.Profile != "" {
		o.Profile = filepath.Join(w.Profile, "agents-cpu.pprof")
	}
	started, err := w.agents.Start(o)
	if err != nil {
		return err
	}
	w.server = started.Server
	if o.Noted {
		w.parts.Go(w.listen)
	}
	return nil
}

// useCluster has the hub be an API server.
func (w *world) useCluster() error {
	s, err := fleet.NewCluster(w.Kubeconfig, resource.Principal)
	if err != nil {
		return err
	}
	w.hub.Store = s
	w.parts.Go(func() error { return s.Run(w.ctx) })
	return nil
}

// listen takes in what agents have written until there is no more.
func (w *world) listen() error {
	for {
		writes, err := w.agents.Writes()
		if err != nil {
			if w.ctx.Err() != nil || w.applied.closed() {
				return nil
			}
			return err
		}
		w.applied.take(writes)
	}
}

// serve starts a principal, where the one before was.
func (w *world) serve() error {
	listen := w.address
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	hub, err := w.Transport.NewHub(fleet.HubConfig{Dir: w.dir, Listen: listen, Quota: w.quota, Log: w.Log})
	if err != nil {
		return err
	}
	p, err := principal.New(principal.Config{
		Namespace: fleet.Namespace,
		Identity:  "bench-hub", Hub: hub, Store: w.hub, Registry: w.roster, Tick: tick, Log: w.Log,
	})
	if err != nil {
		return err
	}
	w.principal = p
	ctx, leave := context.WithCancel(w.ctx)
	left := make(chan struct{})
	w.leave, w.left = leave, left
	w.parts.Go(func() error {
		defer close(left)
		if err := p.Run(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	})
	w.address, err = hub.Addr(w.ctx)
	return err
}

// fill gives each agent all of its Applications, and waits until both sides are in step.
func (w *world) fill() (*offer, error) {
	edit, err := w.hands()
	if err != nil {
		return nil, err
	}
	o := newOffer(edit, w.Agents, w.Apps, w.made(), uint64(w.Seed))
	if err := o.all(w.ctx); err != nil {
		return nil, err
	}
	if err := w.inStep(); err != nil {
		return nil, err
	}
	return o, w.until("the agents to have all Applications", func() (bool, error) {
		if w.Kubeconfig != "" {
			return w.applied.have(o.last), nil
		}
		held, err := w.agents.Objects()
		return held >= len(o.last), err
	})
}

// inStep waits until principal and agents know of each other that they are.
func (w *world) inStep() error {
	for _, a := range w.roster.present() {
		err := w.until("the principal to be in step with "+a.Name, func() (bool, error) {
			s, err := w.principal.Agent(a.Name)
			return err == nil && s.Session.Connected && s.Session.Engine.InStep, nil
		})
		if err != nil {
			return err
		}
	}
	return w.until("the agents to be in step", func() (bool, error) {
		n, err := w.agents.InStep()
		return n >= len(w.roster.present()), err
	})
}

// until waits until something is so.
func (w *world) until(what string, so func() (bool, error)) error {
	late := time.After(patience)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		if done, err := so(); done || err != nil {
			return err
		}
		select {
		case <-look.C:
		case <-late:
			return fmt.Errorf("waited %v for %s", patience, what)
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
	}
}

// pause waits.
func (w *world) pause(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

var errLate = fmt.Errorf("the agents have not written all changes within %v", patience)

// drain waits until the agents have written the last change of each Application.
func (w *world) drain(last []int) error {
	late := time.After(patience)
	for !w.applied.have(last) {
		select {
		case <-w.applied.more:
		case <-late:
			return errLate
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
	}
	return nil
}

// halt ends the principal, and waits for it.
func (w *world) halt() {
	w.leave()
	<-w.left
}

// stop ends everything, and removes what was kept.
func (w *world) stop() error {
	var err error
	if w.agents != nil {
		w.applied.close()
		err = w.agents.Close()
	}
	w.finish()
	if failed := w.parts.Wait(); failed != nil && !errors.Is(failed, context.Canceled) {
		err = errors.Join(err, failed)
	}
	if w.dir != "" {
		err = errors.Join(err, os.RemoveAll(w.dir))
	}
	return err
}

// in runs f in a world of its own.
func in[R any](ctx context.Context, s Settings, o fleet.Order, f func(*world) (R, error)) (r R, err error) {
	w, err := s.start(ctx, o, 0)
	if err != nil {
		return r, err
	}
	r, err = f(w)
	return r, errors.Join(err, w.stop())
}
