package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A CLIResult is what a run of the argocd CLI has left.
type CLIResult struct {
	Stdout, Stderr string
	Code           int // by which it exited; -1 if it was killed
}

// ArgoCD runs the real argocd CLI against the cluster's argocd-server, as a user
// without a configuration of their own would. An exit code is a result; an error
// means that the CLI did not come to its end, and wraps ctx's where that was the
// reason: then the CLI is killed, and the result is what it had said until then.
func (c *Cluster) ArgoCD(ctx context.Context, args ...string) (CLIResult, error) {
	home := c.file("argocd-cli")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return CLIResult{}, fmt.Errorf("stack: argocd %s: %w", strings.Join(args, " "), err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.stack.binaries.Path("argocd"), args...)
	cmd.Dir = home
	cmd.Env = []string{
		"ARGOCD_OPTS=--plaintext --server " + c.address(ArgoCDServer),
		"ARGOCD_CONFIG_DIR=" + home,
		"HOME=" + home,
		path(),
	}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = attributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for what it has started and that holds its output open
	runtime.LockOSThread()      // see [Process]: the child dies with the thread
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	result := CLIResult{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil && err != nil:
		return result, fmt.Errorf("stack: argocd %s: %w", strings.Join(args, " "), ctx.Err())
	case errors.As(err, &exit) && exit.Exited():
		return result, nil
	case err != nil:
		return result, fmt.Errorf("stack: argocd %s: %w", strings.Join(args, " "), err)
	}
	return result, nil
}
