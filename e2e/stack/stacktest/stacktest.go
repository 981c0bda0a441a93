// Package stacktest starts a [stack.Stack] for the time of a test.
package stacktest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

const (
	// startTime bounds the start, a cold build included.
	startTime = 30 * time.Minute
	// pollTime bounds [Eventually].
	pollTime = time.Minute
	// pollInterval is how often [Eventually] looks.
	pollInterval = 50 * time.Millisecond
)

// ArgoCDVariable names the environment variable that says which major version of
// Argo CD the clusters run, where their configuration does not.
const ArgoCDVariable = "STACK_ARGOCD"

// Start starts the clusters of cfg and ends them with the test. The directory
// of state and logs is removed, unless the test has failed: then its path is
// logged.
func Start(t testing.TB, cfg stack.Config) *stack.Stack {
	t.Helper()
	// Not t.TempDir: its long paths do not fit into the address of a socket.
	dir, err := os.MkdirTemp("", "stack-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, dir) })
	if cfg.Output == nil {
		cfg.Output = t.Output()
	}
	if cfg.ArgoCD == "" {
		cfg.ArgoCD = os.Getenv(ArgoCDVariable)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	start := time.Now()
	s, err := stack.Start(ctx, dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started %d clusters in %.1f s", len(cfg.Clusters), time.Since(start).Seconds())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func remove(t testing.TB, dir string) {
	if t.Failed() {
		t.Logf("state and logs are kept in %s", dir)
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// Eventually polls check until it returns nil, and fails the test with its last
// error when that takes longer than a minute.
func Eventually(t testing.TB, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pollTime)
	defer cancel()
	if err := stack.Poll(ctx, pollInterval, check); err != nil {
		t.Fatal(err)
	}
}
