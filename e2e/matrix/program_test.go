package matrix

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A program is the principal or an agent, which may be stopped and started again.
type program interface {
	// Start returns once the program says that it is ready.
	Start(ctx context.Context) error
	// Stop returns once the program has ended, as it should.
	Stop(ctx context.Context) error
}

// processes are our programs as they are installed.
type processes struct {
	stack *stack.Stack
	bin   string
}

// newProcesses builds the programs.
func newProcesses(t *testing.T, s *stack.Stack) processes {
	p := processes{s, filepath.Join(s.Dir(), "bin")}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", p.bin+"/", "./cli/argocd-agent", "./cli/argocd-agentctl")
	cmd.Dir = filepath.Join("..", "..")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
	return p
}

func (p processes) port() (int, error) { return p.stack.Port() }

// register makes the agent known by argocd-agentctl.
func (p processes) register(w *world, where ...string) error {
	args := append([]string{"agent", "create", w.name, "--mode", w.mode.String()}, where...)
	output, err := exec.CommandContext(w.t.Context(), filepath.Join(p.bin, "argocd-agentctl"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

func (p processes) principal(w *world, args ...string) program {
	e := w.hub.ends
	files := []string{"--tls-cert", e.file(".crt"), "--tls-key", e.file(".key"), "--admin-listen", w.desk}
	return p.process(w, w.hub, append(w.carrier.principal(e), append(files, args...)...))
}

func (p processes) agent(w *world, args ...string) program {
	e := w.spoke.ends
	files := []string{"--tls-client-cert", e.file(".crt"), "--tls-client-key", e.file(".key"), "--agent-mode", w.mode.String()}
	return p.process(w, w.spoke, append(w.carrier.agent(e), append(files, args...)...))
}

// file returns the path of a file of the certificate.
func (e ends) file(suffix string) string { return filepath.Join(e.certs, e.name+suffix) }

func (p processes) process(w *world, s *side, args []string) program {
	common := []string{
		s.Side.String(), "--namespace", s.home, "--root-ca-path", filepath.Join(s.ends.certs, "ca.crt"),
		"--healthz-port", fmt.Sprint(s.health), "--metrics-port", "0",
	}
	one := p.stack.Process(stack.ProcessConfig{
		Name:  s.home,
		Path:  filepath.Join(p.bin, "argocd-agent"),
		Args:  slices.Concat(common, w.mapping.flags(s), args),
		Env:   []string{"TMPDIR=" + w.dir},
		Ready: stack.Answers(nil, fmt.Sprintf("http://127.0.0.1:%d/readyz", s.health)),
	})
	return process{one}
}

// A process is one that ends with code 0 when it is stopped.
type process struct{ *stack.Process }

// Stop implements program.
func (p process) Stop(ctx context.Context) error {
	if !p.Running() {
		return nil
	}
	if err := p.Process.Stop(ctx); err != nil {
		return err
	}
	return p.Wait(ctx)
}

// An inside is a program within the test.
type inside struct {
	make  func() (parts []func(context.Context) error, ready func() error, err error)
	stop  context.CancelFunc // nil while it does not run
	ended chan error
}

func newInside(parts func() ([]func(context.Context) error, func() error, error)) *inside {
	return &inside{make: parts}
}

// Start implements program.
func (p *inside) Start(ctx context.Context) error {
	parts, ready, err := p.make()
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.Background())
	p.stop, p.ended = stop, make(chan error, 1)
	g, inner := errgroup.WithContext(running)
	for _, part := range parts {
		g.Go(func() error { return part(inner) })
	}
	go func() { p.ended <- g.Wait() }()
	return stack.Poll(ctx, 25*time.Millisecond, func(context.Context) error { return ready() })
}

// Stop implements program.
func (p *inside) Stop(context.Context) error {
	if p.stop == nil {
		return nil
	}
	p.stop()
	p.stop = nil
	if err := <-p.ended; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the program has ended with %w", err)
	}
	return nil
}

// runPrincipal makes a principal of what a story in memory has.
func (w *world) runPrincipal() ([]func(context.Context) error, func() error, error) {
	hub, err := w.carrier.hub(w.hub.ends)
	if err != nil {
		return nil, nil, err
	}
	c := principal.Config{
		Identity: w.hub.home, Namespace: w.hub.home, Hub: hub, Store: w.hub.cluster.(store).Store,
		Registry: roster{{Name: w.name, Mode: w.mode}}, Tick: time.Second, Log: zap.NewNop(),
	}
	w.mapping.principal(w.hub, &c)
	p, err := principal.New(c)
	if err != nil {
		return nil, nil, err
	}
	desk, err := admin.New(admin.Config{Principal: p, Log: zap.NewNop()})
	if err != nil {
		return nil, nil, err
	}
	network, address, err := admin.Address(w.desk)
	if err != nil {
		return nil, nil, err
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, nil, err
	}
	return []func(context.Context) error{p.Run, func(ctx context.Context) error { return desk.Serve(ctx, l) }}, p.Ready, nil
}

// runAgent makes an agent of what a story in memory has.
func (w *world) runAgent() ([]func(context.Context) error, func() error, error) {
	d, err := w.carrier.dialer(w.spoke.ends)
	if err != nil {
		return nil, nil, err
	}
	c := agent.Config{
		Name: w.name, Namespace: w.spoke.home, Dialer: d, Store: w.spoke.cluster.(store).Store,
		Rules: resource.Rules{Mode: w.mode, Adopt: true}, Tick: time.Second, Log: zap.NewNop(),
	}
	w.mapping.agent(w.spoke, &c)
	a, err := agent.New(c)
	if err != nil {
		return nil, nil, err
	}
	return []func(context.Context) error{a.Run}, a.Ready, nil
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
