//go:build failpoints

package command

import (
	"os"
	"syscall"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/cli/failpoint"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// The program can be killed at the points of package failpoint.

func hubFailpoints(h transport.Hub, s backend.Store) (transport.Hub, backend.Store, error) {
	trap, err := openTrap()
	if trap == nil {
		return h, s, err
	}
	return trap.Hub(h), trap.Store(s), nil
}

func agentFailpoints(d transport.Dialer, s backend.Store) (transport.Dialer, backend.Store, error) {
	trap, err := openTrap()
	if trap == nil {
		return d, s, err
	}
	return trap.Dialer(d), trap.Store(s), nil
}

// openTrap returns the trap that the environment asks for; nil if it asks for none.
func openTrap() (*failpoint.Trap, error) {
	text := os.Getenv(failpoint.Variable)
	if text == "" {
		return nil, nil
	}
	point, n, err := failpoint.Parse(text)
	if err != nil {
		return nil, &shell.UsageError{Where: failpoint.Variable, What: err.Error(), Advice: "write <point>:<n>"}
	}
	return failpoint.New(failpoint.Config{Point: point, N: n, Kill: kill})
}

// kill ends the process as if by kill -9, and does not return.
func kill() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL) // nobody may refuse us that
	select {}
}
