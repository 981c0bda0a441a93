package real

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/transport/natslink/monitor"
)

// A program is our principal or one of our agents.
type program struct {
	*stack.Process
	monitor string // where its NATS server tells of itself, "" if it has none
	health  string // where it says how it is
}

// program prepares one of our programs, as deploy/ has it run with these settings and with the
// rights of a ServiceAccount, and with further flags.
func (w *world) program(t *testing.T, c *stack.Cluster, kubeconfig, client string, settings map[string]string, args ...string) *program {
	command, env := w.shipped[c.Name()].process(t, settings)
	name := command[0] + "-on-" + c.Name()
	health, nats := w.port(t), w.port(t)
	p := &program{health: fmt.Sprintf("http://127.0.0.1:%d", health)}
	if !slices.Contains(args, grpc) {
		p.monitor = fmt.Sprint("127.0.0.1:", nats)
	}
	p.Process = w.stack.Process(stack.ProcessConfig{
		Name: name,
		Path: filepath.Join(w.dir, "argocd-agent"),
		Args: slices.Concat(command, []string{
			"--kubeconfig", kubeconfig,
			"--nats-store-dir", filepath.Join(w.dir, name),
			"--nats-monitor-listen", fmt.Sprint("127.0.0.1:", nats),
			"--healthz-port", fmt.Sprint(health),
			"--unready-after", "2s",
		}, args),
		Env:   append(env, "TMPDIR="+w.tmp(), client),
		Ready: p.ready,
	})
	return p
}

// ready checks that the program says it is ready.
func (p *program) ready(ctx context.Context) error {
	return stack.Answers(nil, p.health+"/readyz")(ctx)
}

// stop ends the program as a kubelet does, and expects that it ends well.
func (p *program) stop(t testing.TB) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	start := time.Now()
	require.NoError(t, p.Stop(ctx))
	took := time.Since(start)
	require.NoError(t, p.Wait(ctx), "the exit code of %s is 0", p.Name())
	return took
}

// Whether a program's client asks for lists as API servers before 1.32 give them, or takes
// them as the beginning of a watch. Each is done on one spoke.
const (
	oldClient = "KUBE_FEATURE_WatchListClient=false"
	newClient = "KUBE_FEATURE_WatchListClient=true"
)

// streams returns the last sequence of each stream of the program's NATS server, if it has one.
func (p *program) streams(ctx context.Context) (map[string]uint64, error) {
	if p.monitor == "" {
		return nil, nil
	}
	return monitor.Sequences(ctx, p.monitor)
}
