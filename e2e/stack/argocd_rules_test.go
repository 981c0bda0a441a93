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
	"k8s.io/apimachinery/pkg/types"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// An operationRule says what argocd-server does with a user's sync and terminate in one state
// of an Application.
type operationRule struct {
	asked bool   // .operation is set
	phase string // of status.operationState, "" if there is none
	syncs bool   // else "another operation is already in progress"
	ends  bool   // else "no operation is in progress"
}

// operationRules are what a principal has to keep to: the phase decides nothing, for a sync
// only whether an operation is set counts, and to end one it must have a state, too.
func operationRules() []operationRule {
	return []operationRule{
		{asked: false, phase: "", syncs: true, ends: false},
		{asked: false, phase: "Running", syncs: true, ends: false},
		{asked: false, phase: "Succeeded", syncs: true, ends: false},
		{asked: true, phase: "", syncs: false, ends: false},
		{asked: true, phase: "Running", syncs: false, ends: true},
		{asked: true, phase: "Terminating", syncs: false, ends: true},
		{asked: true, phase: "Succeeded", syncs: false, ends: true},
	}
}

// testOperationRules holds the table on a hub, where nothing but the CLI changes Applications.
func testOperationRules(t *testing.T, s *stack.Stack) {
	hub := s.Cluster("hub")
	repo, err := s.GitRepo(t.Context(), "rules")
	require.NoError(t, err)
	for i, rule := range operationRules() {
		name := fmt.Sprint("rule-", i)
		manifest := strings.Replace(string(application(name, repo.URL())), "automated: {prune: true, selfHeal: true}, ", "", 1)
		require.NoError(t, hub.Apply(t.Context(), []byte(manifest)))
		patch(t, hub, name, rule.state())

		ended, err := hub.ArgoCD(within(t, time.Minute), "app", "terminate-op", name)
		require.NoError(t, err)
		phase, _ := operationOf(t, hub, name)
		if rule.ends {
			require.Zero(t, ended.Code, "%+v: %s", rule, ended.Stderr)
			require.Equal(t, "Terminating", phase)
		} else {
			require.NotZero(t, ended.Code, "%+v", rule)
			require.Contains(t, ended.Stderr, "No operation is in progress")
			require.Equal(t, rule.phase, phase)
		}

		patch(t, hub, name, rule.state())
		synced, err := hub.ArgoCD(within(t, time.Minute), "app", "sync", name, "--async")
		require.NoError(t, err)
		phase, asked := operationOf(t, hub, name)
		require.True(t, asked || rule.syncs)
		if rule.syncs {
			require.Zero(t, synced.Code, "%+v: %s", rule, synced.Stderr)
			require.True(t, asked)
			require.Empty(t, phase, "the state of the one before goes")
		} else {
			require.NotZero(t, synced.Code, "%+v", rule)
			require.Contains(t, synced.Stderr, "another operation is already in progress")
			require.Equal(t, rule.phase, phase)
		}
	}
}

// state returns the merge patch that brings an Application into the rule's state.
func (r operationRule) state() string {
	operation, state := "null", "null"
	if r.asked {
		operation = `{"sync":{"revision":"main"}}`
	}
	if r.phase != "" {
		state = fmt.Sprintf(`{"phase":%q,"operation":{"sync":{"revision":"main"}},"startedAt":"2026-01-02T03:04:05Z"}`, r.phase)
	}
	return fmt.Sprintf(`{"operation":%s,"status":{"operationState":%s}}`, operation, state)
}

func patch(t *testing.T, c *stack.Cluster, name, text string) {
	t.Helper()
	_, err := applications(c).Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	require.NoError(t, err)
}

// operationOf returns the phase of an Application's operationState, "" if it has none, and
// whether an operation is set.
func operationOf(t *testing.T, c *stack.Cluster, name string) (phase string, asked bool) {
	t.Helper()
	app, err := applications(c).Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
	require.NoError(t, err)
	phase, _, err = unstructured.NestedString(app.Object, "status", "operationState", "phase")
	require.NoError(t, err)
	return phase, app.Object["operation"] != nil
}
