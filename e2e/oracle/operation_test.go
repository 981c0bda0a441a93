package oracle

import (
	"testing"

	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v2/pkg/client/clientset/versioned/fake"
	"github.com/argoproj/argo-cd/v2/util/argo"
	"github.com/argoproj/gitops-engine/pkg/sync/common"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// phases are all that Argo CD knows, and "" for an Application without an operationState.
func phases() []common.OperationPhase {
	return []common.OperationPhase{
		"", common.OperationRunning, common.OperationTerminating,
		common.OperationSucceeded, common.OperationFailed, common.OperationError,
	}
}

// asking returns an Application of the hub with an operation, or none, and an operationState
// in a phase.
func asking(asked bool, phase common.OperationPhase) *v1alpha1.Application {
	a := &v1alpha1.Application{
		TypeMeta:   metav1.TypeMeta{APIVersion: "argoproj.io/v1alpha1", Kind: "Application"},
		ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "edge-1", UID: "u-1", ResourceVersion: "1"},
	}
	if asked {
		a.Operation = operation("earlier")
	}
	if phase != "" {
		a.Status.OperationState = &v1alpha1.OperationState{Phase: phase, Operation: *operation("earlier"), StartedAt: metav1.NewTime(now())}
	}
	return a
}

func operation(revision string) *v1alpha1.Operation {
	return &v1alpha1.Operation{
		Sync:        &v1alpha1.SyncOperation{Revision: revision, Prune: true},
		InitiatedBy: v1alpha1.OperationInitiator{Username: "admin"},
	}
}

// sync does what argocd-server does for a sync, and returns the Application after it.
func sync(t *testing.T, a *v1alpha1.Application) (*v1alpha1.Application, error) {
	t.Helper()
	client := fake.NewSimpleClientset(a).ArgoprojV1alpha1().Applications(a.Namespace)
	_, err := argo.SetAppOperation(client, a.Name, operation("asked"))
	after, getErr := client.Get(t.Context(), a.Name, metav1.GetOptions{})
	require.NoError(t, getErr)
	return after, err
}

// TestSync writes down what a sync does, by whether an operation is asked for already; the
// phase of an operationState decides nothing.
func TestSync(t *testing.T) {
	for _, phase := range phases() {
		for _, asked := range []bool{false, true} {
			before := asking(asked, phase)
			after, err := sync(t, before)
			if asked {
				require.ErrorIs(t, err, argo.ErrAnotherOperationInProgress, phase)
				require.Equal(t, before.Operation, after.Operation)
				require.Equal(t, before.Status.OperationState, after.Status.OperationState)
				continue
			}
			require.NoError(t, err, phase)
			require.Equal(t, operation("asked"), after.Operation)
			require.Nil(t, after.Status.OperationState, "the last one is not taken for this one's")
		}
	}
}

const operationID = "argocd-agent.argoproj-labs.io/operation-id"

// principal returns what a principal makes of an Application of its hub, while the agent is
// away.
func principal(t *testing.T, a *v1alpha1.Application) *v1alpha1.Application {
	t.Helper()
	e := engine.New(engine.Config{Side: resource.Principal, Rules: resource.Rules{Mode: resource.Managed}, Self: "hub", Peer: "edge-1"})
	object := resource.Object{
		Key: resource.Key{Kind: resource.Application, Name: a.Name}, UID: string(a.UID), Version: a.ResourceVersion,
	}
	object.Parts[resource.Spec] = resource.Canonical(tree(t, encoded(t, a.Spec)))
	object.Parts[resource.OpID] = a.Annotations[operationID]
	if a.Operation != nil {
		object.Parts[resource.Operation] = resource.Canonical(tree(t, encoded(t, a.Operation)))
	}
	if a.Status.OperationState != nil {
		object.Parts[resource.OpState] = resource.Canonical(tree(t, encoded(t, a.Status.OperationState)))
	}
	var actions []engine.Action
	for _, event := range []engine.Event{
		engine.Changed{Object: object}, engine.Opened{Epoch: "e", Keeps: true}, engine.Tick{},
	} {
		actions = append(actions, e.Step(now(), event)...)
	}
	for _, action := range actions {
		if w, ok := action.(engine.Write); ok {
			object = w.Object
		}
	}
	after := a.DeepCopy()
	after.Operation, after.Status.OperationState, after.Annotations = nil, nil, nil
	if id := object.Parts[resource.OpID]; id != "" {
		after.Annotations = map[string]string{operationID: id}
	}
	if text := object.Parts[resource.Operation]; text != "" {
		after.Operation = decoded[v1alpha1.Operation](t, []byte(text))
	}
	if text := object.Parts[resource.OpState]; text != "" {
		after.Status.OperationState = decoded[v1alpha1.OperationState](t, []byte(text))
	}
	return after
}

// TestASyncWaitsForItsAgent holds that what a principal makes of a sync is, to Argo CD, an
// operation that runs: another is refused, it can be terminated, and nobody takes it for done.
func TestASyncWaitsForItsAgent(t *testing.T) {
	for _, phase := range phases() {
		asked, err := sync(t, asking(false, phase))
		require.NoError(t, err)
		waiting := principal(t, asked)
		require.Equal(t, asked.Operation, waiting.Operation)
		state := waiting.Status.OperationState
		require.NotNil(t, state)
		require.Equal(t, common.OperationRunning, state.Phase)
		require.False(t, state.Phase.Completed())
		require.Nil(t, state.FinishedAt)
		require.False(t, state.StartedAt.IsZero())
		require.Equal(t, *asked.Operation, state.Operation)
		require.Equal(t, "waiting for agent edge-1", state.Message)

		_, err = sync(t, waiting)
		require.ErrorIs(t, err, argo.ErrAnotherOperationInProgress)
	}
}

// TestASyncIsTerminatedBeforeItsAgentTakesIt holds that it ends at once, and for Argo CD has
// failed; another may then be asked for. What argocd-server writes for a user who terminates
// an operation is held by e2e/stack.
func TestASyncIsTerminatedBeforeItsAgentTakesIt(t *testing.T) {
	for _, phase := range phases() {
		asked, err := sync(t, asking(false, phase))
		require.NoError(t, err)
		waiting := principal(t, asked)
		waiting.Status.OperationState.Phase = common.OperationTerminating
		ended := principal(t, waiting)
		require.Nil(t, ended.Operation)
		state := ended.Status.OperationState
		require.Equal(t, common.OperationFailed, state.Phase)
		require.True(t, state.Phase.Completed())
		require.NotNil(t, state.FinishedAt)
		require.False(t, state.FinishedAt.Before(&state.StartedAt))
		require.Equal(t, *asked.Operation, state.Operation)

		again, err := sync(t, ended)
		require.NoError(t, err)
		require.Equal(t, common.OperationRunning, principal(t, again).Status.OperationState.Phase)
	}
}

// TestNothingAskedNothingWritten holds that a principal by itself changes no operationState.
func TestNothingAskedNothingWritten(t *testing.T) {
	for _, phase := range phases() {
		idle := asking(false, phase)
		require.JSONEq(t, string(encoded(t, idle)), string(encoded(t, principal(t, idle))), phase)
	}
}

func TestFinishedIsWhatArgoCDCallsCompleted(t *testing.T) {
	for _, phase := range phases() {
		state := string(encoded(t, v1alpha1.OperationState{Phase: phase}))
		require.Equal(t, phase.Completed(), resource.OperationFinished(state), phase)
	}
}
