package real

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// refusals: what is wrong outside our programs is said in one clear line.
func refusals(t *testing.T, w *world) {
	t.Run("UnknownAgent", func(t *testing.T) { unknownAgent(t, w) })
	t.Run("UnreachableHub", func(t *testing.T) { unreachable(t, w) })
	t.Run("NoRights", func(t *testing.T) { noRights(t, w) })
}

// unknownAgent: an agent with a good certificate, but that nobody has registered, is
// refused; both sides say so once, it gets no stream, and nothing else is disturbed.
func unknownAgent(t *testing.T, w *world) {
	require.NoError(t, w.stack.Cluster("spoke-2").Namespace(t.Context(), "stranger"))
	w.ctl(t, "pki", "issue", "agent", "stranger", "--agent-context", "spoke-2", "--agent-namespace", "stranger")
	carried, port := "--transport=nats", w.leafPort
	if *overGRPC {
		carried, port = grpc, w.grpcPort
	}
	health := w.port(t)
	p := &program{health: fmt.Sprintf("http://127.0.0.1:%d", health)}
	p.Process = w.stack.Process(stack.ProcessConfig{
		Name: "stranger",
		Path: filepath.Join(w.dir, "argocd-agent"),
		Args: []string{
			"agent", "--kubeconfig", w.kubeconfig, "--kubecontext", "spoke-2", "--namespace", "stranger",
			"--agent-mode", "managed", carried, "--server-address", "127.0.0.1", "--server-port", fmt.Sprint(port),
			"--nats-store-dir", filepath.Join(w.dir, "stranger"), "--healthz-port", fmt.Sprint(health),
		},
		Env:   []string{"TMPDIR=" + w.tmp(), "ARGOCD_AGENT_METRICS_PORT=0"},
		Ready: p.ready,
	})
	require.NoError(t, p.Start(t.Context()), "it works on alone")
	within(t, patience, w.principal.said(1, "refused a connection", "stranger"))
	within(t, patience, p.said(1, "agentctl agent create"))
	time.Sleep(3 * time.Second) // in which it tries again
	require.NoError(t, w.principal.said(1, "refused a connection", "stranger")(t.Context()))
	require.NoError(t, p.said(1, "agentctl agent create")(t.Context()))
	streams, err := w.principal.streams(t.Context())
	require.NoError(t, err)
	require.NotContains(t, streams, "UP_stranger")
	p.stop(t)
}

// said returns a check that the program's log has exactly n lines with all the words.
func (p *program) said(n int, words ...string) func(context.Context) error {
	return func(context.Context) error {
		log, err := os.ReadFile(p.Log())
		if err != nil {
			return err
		}
		found := 0
		for line := range strings.Lines(string(log)) {
			has := true
			for _, word := range words {
				has = has && strings.Contains(line, word)
			}
			if has {
				found++
			}
		}
		if found != n {
			return fmt.Errorf("%s has said %q %d times", p.Name(), words, found)
		}
		return nil
	}
}

// unreachable: a principal that cannot reach its cluster waits for it, and says so in one line; a
// command ends with one.
func unreachable(t *testing.T, w *world) {
	text, err := os.ReadFile(w.kubeconfig)
	require.NoError(t, err)
	nobody := filepath.Join(w.dir, "nobody.kubeconfig")
	address := fmt.Sprint("127.0.0.1:", w.port(t))
	require.NoError(t, os.WriteFile(nobody, bytes.ReplaceAll(text, []byte(w.hub.URL()), []byte("https://"+address)), 0o600))

	health := w.port(t)
	p := &program{health: fmt.Sprintf("http://127.0.0.1:%d", health)}
	p.Process = w.stack.Process(stack.ProcessConfig{
		Name: "nobody",
		Path: filepath.Join(w.dir, "argocd-agent"),
		Args: []string{
			"principal", "--kubeconfig", nobody, "--nats-store-dir", filepath.Join(w.dir, "nobody"),
			"--healthz-port", fmt.Sprint(health),
		},
		Env:   []string{"TMPDIR=" + w.tmp(), "ARGOCD_PRINCIPAL_METRICS_PORT=0"},
		Ready: p.said(1, "waiting for the API server", address, "connection refused"),
	})
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, p.answers(t.Context(), "/livez", http.StatusOK))
	require.NoError(t, p.answers(t.Context(), "/startupz", http.StatusServiceUnavailable))
	p.stop(t)

	code, said := w.fails(t, "argocd-agentctl", "agent", "list", "--kubeconfig", nobody)
	require.Equal(t, 1, code, said)
	require.Equal(t, 1, strings.Count(said, "\n"), said)
	require.Contains(t, said, address)
	require.Contains(t, said, "connection refused")
}

// noRights: a principal whose account may not do what it must ends with one line that
// says what is missing.
func noRights(t *testing.T, w *world) {
	account := "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: powerless, namespace: " + argocd + "}\n"
	require.NoError(t, w.hub.Apply(t.Context(), []byte(account)))
	kubeconfig, err := w.hub.ServiceAccountKubeconfig(t.Context(), argocd, "powerless")
	require.NoError(t, err)
	code, said := w.fails(t, "argocd-agent", "principal", "--kubeconfig", kubeconfig, "--nats-store-dir", filepath.Join(w.dir, "powerless"))
	require.Equal(t, 1, code, said)
	require.Equal(t, 1, strings.Count(said, "\n"), said)
	require.Contains(t, said, "forbidden")
}

// fails runs a program that is expected to fail, and returns its exit code and what it
// has said.
func (w *world) fails(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(w.dir, args[0]), args[1:]...)
	cmd.Env = []string{"TMPDIR=" + w.tmp()}
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%s: %v: %s", args, err, output)
	return exit.ExitCode(), string(output)
}

// end ends all programs, one of them while its link is cut, and expects that each ends
// well, that no process is left, and nothing in the folder for temporary files.
func (w *world) end(t *testing.T) {
	programs := []*program{w.principal}
	for _, a := range w.agents {
		if a.name == "edge-2" {
			a.line.Set(netfault.Cut)
		}
		programs = append(programs, a.program)
	}
	for _, p := range programs {
		require.True(t, p.Running(), p.Name())
		pid := p.PID()
		t.Logf("%s has ended in %.1f s", p.Name(), p.stop(t).Seconds())
		require.ErrorIs(t, syscall.Kill(-pid, 0), syscall.ESRCH)
	}
	left, err := os.ReadDir(w.tmp())
	require.NoError(t, err)
	require.Empty(t, left)
}
