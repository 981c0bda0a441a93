package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
)

const (
	tick     = time.Second      // as the programs have it
	patience = 60 * time.Second // with what must come
)

// A world is a principal in this process, and an agent in another.
type world struct {
	hub       *memstore.Store
	principal *principal.Principal
	applied   *applied // by the agent
	parts     *errgroup.Group
	ctx       context.Context // of parts
	finish    context.CancelFunc
	agent     *exec.Cmd
	end       func() // tells it to end
}

// A setting says what world is to be started.
type setting struct {
	command []string    // that calls RunAgent
	order   order       // for the agent, without what the world knows
	apps    int         // how many Applications there are at most
	log     *zap.Logger // of the principal
}

// start starts a principal and an agent, and returns without waiting for them to meet.
func start(ctx context.Context, dir string, c setting) (*world, error) {
	w := &world{hub: memstore.New(memstore.Config{Name: "hub"}), applied: newApplied(c.apps)}
	ctx, w.finish = context.WithCancel(ctx)
	w.parts, w.ctx = errgroup.WithContext(ctx)
	if err := w.startBoth(dir, c); err != nil {
		w.finish()
		return nil, errors.Join(err, w.wait())
	}
	return w, nil
}

func (w *world) startBoth(dir string, c setting) error {
	if err := throwaway.Issue(dir, agentName); err != nil {
		return err
	}
	address, err := w.startPrincipal(dir, c.log)
	if err != nil {
		return err
	}
	c.order.Dir, c.order.Principal = dir, address
	return w.startAgent(c.command, c.order)
}

// startPrincipal returns the address that the principal listens on.
func (w *world) startPrincipal(dir string, log *zap.Logger) (string, error) {
	own, err := throwaway.Files(dir, throwaway.Principal).Credentials(time.Now())
	if err != nil {
		return "", err
	}
	hub, err := natslink.NewHub(natslink.HubConfig{
		Common: common(dir, "principal", log), Listen: "127.0.0.1:0", Credentials: own, Authenticate: identity.SubjectName,
	})
	if err != nil {
		return "", err
	}
	p, err := principal.New(principal.Config{
		Namespace: "argocd",
		Identity:  "bench-hub", Hub: hub, Store: w.hub, Registry: only{Name: agentName, Mode: resource.Managed}, Tick: tick, Log: log,
	})
	if err != nil {
		return "", err
	}
	w.principal = p
	w.parts.Go(func() error { return p.Run(w.ctx) })
	return hub.Addr(w.ctx)
}

// startAgent starts the agent's process, and reads what it tells until it ends.
func (w *world) startAgent(command []string, o order) error {
	var complaint bytes.Buffer
	cmd := exec.CommandContext(w.ctx, command[0], command[1:]...)
	cmd.Stderr, cmd.WaitDelay = &complaint, patience
	w.agent = cmd
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	w.end = func() { stdin.Close() } // twice at most
	cmd.Cancel = func() error { w.end(); return nil }
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	w.parts.Go(func() error {
		told := errors.Join(json.NewEncoder(stdin).Encode(o), w.applied.listen(stdout))
		if err := errors.Join(told, cmd.Wait()); err != nil {
			return fmt.Errorf("the agent: %w: %s", err, bytes.TrimSpace(complaint.Bytes()))
		}
		return nil
	})
	return nil
}

var errLate = fmt.Errorf("the agent has not written all changes within %v", patience)

// drain waits until the agent has written the last change of each Application.
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

// stop ends the agent, which tells how it stands, and then the principal.
func (w *world) stop() error {
	w.end()
	select {
	case <-w.applied.ended:
	case <-w.ctx.Done():
	case <-time.After(patience):
	}
	w.finish()
	return w.wait()
}

func (w *world) wait() error {
	if err := w.parts.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func common(dir, name string, log *zap.Logger) natslink.Common {
	return natslink.Common{
		StoreDir: filepath.Join(dir, "messages", name),
		Presence: transport.Presence{Version: "bench", Oldest: wire.Oldest, Newest: wire.Newest},
		Logger:   log,
	}
}

// only is a registry of one agent.
type only backend.Agent

// Watch implements backend.Registry.
func (o only) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	if err := f([]backend.Agent{backend.Agent(o)}); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}
