package stack_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
)

// shell returns a process that runs a script, and is ready once the script has
// created the file "ready" in its working directory.
func shell(t *testing.T, script string) (p *stack.Process, dir string) {
	t.Helper()
	dir = t.TempDir()
	p = stack.NewProcess(stack.ProcessConfig{
		Name: "script",
		Path: "/bin/sh",
		Args: []string{"-c", script},
		Env:  []string{"PATH=" + os.Getenv("PATH")},
		Dir:  dir,
		Log:  filepath.Join(dir, "logs", "script.log"),
		Ready: func(context.Context) error {
			_, err := os.Stat(filepath.Join(dir, "ready"))
			return err
		},
	})
	t.Cleanup(p.Kill)
	return p, dir
}

func TestProcessStopsAndStartsAgain(t *testing.T) {
	p, dir := shell(t, `trap 'echo bye; exit 0' TERM; echo hello; touch ready; while :; do sleep 0.02; done`)
	ctx := within(t, 10*time.Second)
	require.False(t, p.Running())
	require.NoError(t, p.Start(ctx))
	require.True(t, p.Running())
	first := p.PID()
	require.Error(t, p.Start(ctx), "it runs already")

	require.NoError(t, os.Remove(filepath.Join(dir, "ready")))
	require.NoError(t, p.Restart(ctx))
	require.NotEqual(t, first, p.PID())
	require.NoError(t, p.Stop(ctx))
	require.NoError(t, p.Stop(ctx), "what does not run is stopped")
	require.NoError(t, p.Wait(ctx))
	require.False(t, p.Running())

	log, err := os.ReadFile(p.Log())
	require.NoError(t, err)
	require.Equal(t, "hello\nbye\nhello\nbye\n", string(log))
}

func TestProcessThatIgnoresStopIsKilled(t *testing.T) {
	p, _ := shell(t, `trap '' TERM; touch ready; while :; do sleep 0.02; done`)
	require.NoError(t, p.Start(within(t, 10*time.Second)))
	err := p.Stop(within(t, 200*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, p.Running())
}

func TestProcessThatEndsEarlyFailsToStart(t *testing.T) {
	p, _ := shell(t, `echo the port is taken; exit 3`)
	err := p.Start(within(t, 10*time.Second))
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 3, exit.ExitCode())
	require.ErrorContains(t, err, "the port is taken")
	require.False(t, p.Running())
}

func TestProcessThatIsNotReadyInTimeIsKilled(t *testing.T) {
	p, _ := shell(t, `exec sleep 60`)
	require.ErrorIs(t, p.Start(within(t, 100*time.Millisecond)), context.DeadlineExceeded)
	require.False(t, p.Running())
}

func TestKillEndsWhatTheProcessHasStarted(t *testing.T) {
	p, dir := shell(t, `sleep 60 & echo $! >child; touch ready; wait`)
	require.NoError(t, p.Start(within(t, 10*time.Second)))
	p.Kill()
	require.False(t, p.Running())
	stacktest.Eventually(t, gone(pidIn(t, filepath.Join(dir, "child"))))
}

func TestPausedProcessStops(t *testing.T) {
	p, _ := shell(t, `trap 'exit 0' TERM; touch ready; while :; do sleep 0.02; done`)
	require.ErrorIs(t, p.Signal(syscall.SIGSTOP), os.ErrProcessDone)
	require.NoError(t, p.Start(within(t, 10*time.Second)))
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	require.NoError(t, p.Stop(within(t, 10*time.Second)))
}

// TestChildrenDieWithTheirParent runs itself as the parent and kills it.
func TestChildrenDieWithTheirParent(t *testing.T) {
	const variable = "STACK_TEST_CHILD"
	if file := os.Getenv(variable); file != "" {
		p, _ := shell(t, `echo $$ >`+file+`; touch ready; exec sleep 60`)
		require.NoError(t, p.Start(within(t, 10*time.Second)))
		require.NoError(t, p.Wait(t.Context()))
		return
	}
	file := filepath.Join(t.TempDir(), "pid")
	parent := exec.Command(os.Args[0], "-test.run=^TestChildrenDieWithTheirParent$")
	parent.Env = append(os.Environ(), variable+"="+file)
	require.NoError(t, parent.Start())
	stacktest.Eventually(t, func(context.Context) error {
		content, err := os.ReadFile(file)
		if err == nil && len(content) == 0 {
			return fs.ErrNotExist
		}
		return err
	})
	child := pidIn(t, file)
	require.NoError(t, syscall.Kill(child, 0), "the child runs")
	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	stacktest.Eventually(t, gone(child))
}

// within returns a context for one step of a test.
func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func pidIn(t *testing.T, file string) int {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	require.NoError(t, err)
	return pid
}

// gone checks that a process has ended; nobody may have reaped it yet.
func gone(pid int) func(context.Context) error {
	return func(context.Context) error {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, fs.ErrNotExist) || strings.Contains(string(status), ") Z ") {
			return nil
		}
		return fmt.Errorf("process %d runs", pid)
	}
}
