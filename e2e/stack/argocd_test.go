package stack_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
)

// testCLISync lets the CLI sync an Application, and so ask for an operation and wait for
// its end, where an application controller runs.
func testCLISync(t *testing.T, s *stack.Stack) {
	spoke := s.Cluster("spoke")
	history := func() int {
		app, err := applications(spoke).Get(t.Context(), "demo", metav1.GetOptions{})
		require.NoError(t, err)
		list, _, err := unstructured.NestedSlice(app.Object, "status", "history")
		require.NoError(t, err)
		return len(list)
	}
	before := history()
	result, err := spoke.ArgoCD(within(t, time.Minute), "app", "sync", "demo")
	require.NoError(t, err)
	require.Zero(t, result.Code, result.Stderr)
	require.Contains(t, result.Stdout, "Phase:              Succeeded")
	require.Equal(t, before+1, history())
}

func testCLIExit(t *testing.T, s *stack.Stack) {
	hub := s.Cluster("hub")
	version, err := hub.ArgoCD(within(t, time.Minute), "version", "--short")
	require.NoError(t, err)
	require.Zero(t, version.Code, version.Stderr)
	client, server, ok := strings.Cut(version.Stdout, "\n")
	require.True(t, ok, version.Stdout)
	require.Equal(t, strings.TrimPrefix(client, "argocd: "), strings.TrimPrefix(strings.TrimSpace(server), "argocd-server: "))

	refused, err := hub.ArgoCD(within(t, time.Minute), "app", "get", "nobody")
	require.NoError(t, err)
	require.NotZero(t, refused.Code)
	require.Contains(t, refused.Stderr, "PermissionDenied")
	require.Empty(t, refused.Stdout)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = hub.ArgoCD(ended, "version")
	require.ErrorIs(t, err, context.Canceled)
}

// testOtherNamespaces also cancels the CLI while it waits for what nobody does.
func testOtherNamespaces(t *testing.T, s *stack.Stack) {
	hub := s.Cluster("hub")
	require.NoError(t, hub.Namespace(t.Context(), "edge-1"))
	repo, err := s.GitRepo(t.Context(), "guest") // or argocd-server does not resolve the revision
	require.NoError(t, err)
	manifest := strings.Replace(string(application("guest", repo.URL())), "namespace: argocd", "namespace: edge-1", 1)
	manifest = strings.Replace(manifest, "automated: {prune: true, selfHeal: true}, ", "", 1)
	require.NoError(t, hub.Apply(t.Context(), []byte(manifest)))
	stacktest.Eventually(t, func(ctx context.Context) error {
		return lists(ctx, hub, "edge-1/guest")
	})

	ctx, cancel := context.WithCancel(within(t, time.Minute))
	ended := make(chan error, 1)
	go func() {
		result, err := hub.ArgoCD(ctx, "app", "sync", "edge-1/guest")
		if err == nil {
			err = fmt.Errorf("exit code %d: %s", result.Code, result.Stderr)
		}
		ended <- err
	}()
	guests := hub.Dynamic().Resource(stack.Applications()).Namespace("edge-1")
	stacktest.Eventually(t, func(ctx context.Context) error {
		app, err := guests.Get(ctx, "guest", metav1.GetOptions{})
		if err == nil && app.Object["operation"] == nil {
			return fmt.Errorf("no operation is asked for")
		}
		return err
	})
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func testApplicationSet(t *testing.T, s *stack.Stack) {
	hub := s.Cluster("hub")
	set := func(elements string) []byte {
		return fmt.Appendf(nil, `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: ships, namespace: edge-1}
spec:
  generators: [{list: {elements: [%s]}}]
  template:
    metadata: {name: "ship-{{name}}"}
    spec:
      project: default
      source: {repoURL: "file:///nowhere", path: app, targetRevision: main}
      destination: {server: "https://kubernetes.default.svc", namespace: ships}
`, elements)
	}
	require.NoError(t, hub.Apply(t.Context(), set("{name: a}, {name: b}")))
	stacktest.Eventually(t, func(ctx context.Context) error {
		return lists(ctx, hub, "edge-1/guest", "edge-1/ship-a", "edge-1/ship-b")
	})
	require.NoError(t, hub.Apply(t.Context(), set("{name: b}")))
	apps := hub.Dynamic().Resource(stack.Applications()).Namespace("edge-1")
	stacktest.Eventually(t, func(ctx context.Context) error { // and waits for an application controller
		app, err := apps.Get(ctx, "ship-a", metav1.GetOptions{})
		if err == nil && app.GetDeletionTimestamp() == nil {
			return fmt.Errorf("%s is not deleted", app.GetName())
		}
		return err
	})
	kept, err := apps.Get(t.Context(), "ship-b", metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, kept.GetDeletionTimestamp())
}

// lists checks which Applications of edge-1 the CLI lists, sorted.
func lists(ctx context.Context, c *stack.Cluster, want ...string) error {
	result, err := c.ArgoCD(ctx, "app", "list", "--output", "name", "--app-namespace", "edge-1")
	if err != nil {
		return err
	}
	if got := strings.Fields(result.Stdout); fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("exit code %d, listed %v: %s", result.Code, got, result.Stderr)
	}
	return nil
}
