package kubestore

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// full is an Application with something in every place that matters.
const full = `{
"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
"metadata": {
  "namespace": "edge", "name": "a.b", "uid": "u-1", "resourceVersion": "12", "generation": 4, "deletionTimestamp": "2026-01-02T03:04:05Z",
  "labels": {"team": "blue", "argocd-agent.argoproj-labs.io/agent-name": "edge"},
  "annotations": {
    "example.com/note": "<&>",
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
    "notified.notifications.argoproj.io": "{}",
    "argocd.argoproj.io/refresh": "hard",
    "argocd.argoproj.io/hydrate": "normal",
    "argocd.argoproj.io/source-uid": "src",
    "argocd.argoproj.io/principal-uid": "hub",
    "argocd-agent.argoproj-labs.io/operation-id": "op-1,hard-1/2026-01-02T03:04:05Z"},
  "finalizers": ["post-delete-finalizer.argocd.argoproj.io", "resources-finalizer.argocd.argoproj.io/background", "resources-finalizer.argocd.argoproj.iox"],
  "managedFields": [
    {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:theirs": {}}}}},
    {"manager": "argocd-agent", "operation": "Update", "fieldsV1": {"f:spec": {}, "f:metadata": {
       "f:labels": {".": {}, "f:team": {}, "f:argocd-agent.argoproj-labs.io/agent-name": {}},
       "f:annotations": {"f:example.com/note": {}, "f:argocd.argoproj.io/source-uid": {}}}}}]},
"spec": {"project": "default", "newField": {"of": ["a", "newer", 1.5, 9007199254740993]}},
"operation": {"sync": {}},
"status": {
  "health": {"status": "Healthy"},
  "operationState": {"phase": "Running"},
  "conditions": [
    {"type": "AgentPending", "message": "p"},
    {"type": "SyncError", "message": "s"},
    {"type": "AgentError", "message": "it failed", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}}`

func parse(t *testing.T, text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON([]byte(text)))
	return u
}

func TestReadTakesAnApplicationApart(t *testing.T) {
	u := parse(t, full)
	l := layouts[resource.Application]
	want := resource.Object{
		Key: resource.Key{Kind: resource.Application, Namespace: "edge", Name: "a.b"},
		UID: "u-1", Version: "12", Deleting: true,
		Origin: resource.Origin{UID: "src", By: "edge"},
		Ours:   `{"labels":{"team":""},"annotations":{"example.com/note":""}}`,
		Parts: resource.Parts{
			resource.Spec:      `{"newField":{"of":["a","newer",1.5,9007199254740993]},"project":"default"}`,
			resource.Meta:      `{"labels":{"team":"blue"},"annotations":{"example.com/note":"<&>"},"finalizers":["resources-finalizer.argocd.argoproj.io/background"]}`,
			resource.Status:    `{"conditions":[{"message":"s","type":"SyncError"}],"health":{"status":"Healthy"}}`,
			resource.OpState:   `{"phase":"Running"}`,
			resource.Operation: `{"sync":{}}`,
			resource.OpID:      "op-1",
			resource.Refresh:   "hard-1/2026-01-02T03:04:05Z",
			resource.Fault:     "it failed",
			resource.Pending:   "p",

			resource.RefreshMark: "hard",
		},
	}
	hub := l.read(resource.Application, resource.Principal, u)
	require.Equal(t, want, hub.Object)
	require.Equal(t, []string{"post-delete-finalizer.argocd.argoproj.io", "resources-finalizer.argocd.argoproj.iox"}, hub.finalizers)
	require.Len(t, hub.conditions, 2)

	want.Origin.By = "hub"
	require.Equal(t, want, l.read(resource.Application, resource.Agent, u).Object)
	require.Equal(t, parse(t, full), u, "it was left as it is")
}

func TestReadOfAnObjectThatIsNobodysCopy(t *testing.T) {
	u := parse(t, full)
	u.SetAnnotations(nil)
	u.SetLabels(map[string]string{"team": "blue"})
	unstructured.RemoveNestedField(u.Object, "status", "health")
	require.NoError(t, unstructured.SetNestedSlice(u.Object, []any{map[string]any{"type": "AgentError"}}, "status", "conditions"))
	o := layouts[resource.Application].read(resource.Application, resource.Principal, u).Object
	require.Zero(t, o.Origin)
	require.Empty(t, o.Ours)
	require.Empty(t, o.Parts[resource.Status], "nothing is left of it")
}

// TestWriteKeepsItsHandsOffMarks wants what only a peer that lies would want.
func TestWriteKeepsItsHandsOffMarks(t *testing.T) {
	l := layouts[resource.Application]
	cur := l.read(resource.Application, resource.Principal, parse(t, full))
	want := cur.Object
	want.Parts[resource.Meta] = `{"labels":{"team":"blue","argocd-agent.argoproj-labs.io/agent-name":"other"},` +
		`"annotations":{"argocd.argoproj.io/source-uid":"x","argocd.argoproj.io/refresh":"x","example.com/note":"<&>"},` +
		`"finalizers":["example.com/never-goes","resources-finalizer.argocd.argoproj.io/background"]}`
	want.Parts[resource.Status] = `{"conditions":[{"message":"s","type":"SyncError"},{"message":"x","type":"DeletionHeld"}],"health":{"status":"Healthy"},"operationState":{"phase":"x"}}`
	patch, err := l.patch(resource.Principal, cur, want, "now")
	require.NoError(t, err)
	require.Empty(t, patch)
}

func TestPatchNamesVersionAndWhatDiffersOnly(t *testing.T) {
	l := layouts[resource.Application]
	cur := l.read(resource.Application, resource.Principal, parse(t, full))
	want := cur.Object
	want.Parts[resource.OpState] = `{"phase":"Succeeded"}`
	want.Parts[resource.Operation] = ""
	patch, err := l.patch(resource.Principal, cur, want, "now")
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"uid":"u-1","resourceVersion":"12"},"operation":null,"status":{"operationState":{"phase":"Succeeded"}}}`, patch)

	want = cur.Object
	want.Parts[resource.OpID], want.Parts[resource.RefreshMark] = "", ""
	patch, err = l.patch(resource.Principal, cur, want, "now")
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"uid":"u-1","resourceVersion":"12","annotations":{"argocd.argoproj.io/refresh":null,
		"argocd-agent.argoproj-labs.io/operation-id":",hard-1/2026-01-02T03:04:05Z"}}}`, patch)

	want = cur.Object
	want.Parts[resource.Fault] = "otherwise"
	want.Parts[resource.Meta] = `{"labels":{"team":"red"},"annotations":{"example.com/note":"<&>"}}`
	patch, err = l.patch(resource.Principal, cur, want, "now")
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"uid":"u-1","resourceVersion":"12","labels":{"team":"red"},
		"finalizers":["post-delete-finalizer.argocd.argoproj.io","resources-finalizer.argocd.argoproj.iox"]},
		"status":{"conditions":[{"type":"SyncError","message":"s"},{"type":"AgentPending","message":"p"},{"type":"AgentError","message":"otherwise","lastTransitionTime":"now"}]}}`, patch)
}

func TestPartsThatCannotBeLaidOutAreRefused(t *testing.T) {
	l := layouts[resource.Application]
	for _, parts := range []resource.Parts{
		{resource.Spec: `{"broken`},
		{resource.Status: `"a text"`, resource.OpState: `{}`},
		{resource.Status: `[1]`, resource.Fault: "it failed"},
	} {
		_, err := l.create(resource.Principal, resource.Object{Parts: parts}, "now")
		require.ErrorIs(t, err, backend.ErrRefused, "%q", parts)
		_, err = l.patch(resource.Principal, record{}, resource.Object{Parts: parts}, "now")
		require.ErrorIs(t, err, backend.ErrRefused, "%q", parts)
	}
}

// TestNumbersSurvive sends numbers through everything that a number goes through.
func TestNumbersSurvive(t *testing.T) {
	const text = `{"a":9223372036854775807,"b":-9223372036854775808,"c":9007199254740993,"d":0.1,"e":1e+21,"f":1.5}`
	l := layouts[resource.Application]
	object, err := l.create(resource.Principal, resource.Object{
		Key: resource.Key{Kind: resource.Application}, Parts: resource.Parts{resource.Spec: text},
	}, "now")
	require.NoError(t, err)
	u, err := decode(object)
	require.NoError(t, err)
	sent, err := json.Marshal(u.Object)
	require.NoError(t, err)
	require.Equal(t, text, l.read(resource.Application, resource.Principal, parse(t, string(sent))).Parts[resource.Spec])
}
