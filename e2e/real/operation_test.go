package real

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// operations: a sync that is asked for on the hub runs once on the spoke, and the hub shows
// it as pending until then. Asked for while the link is cut, it runs when it is healed, once,
// on what was asked for, whatever else was edited meanwhile and whoever is restarted after.
func operations(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	s := spec(a.name, w.repo(t, "operations").URL(), "operations")
	delete(s["syncPolicy"].(fields), "automated")
	a.hub.create(t, application("operations", s))
	within(t, time.Minute, a.hub.is("operations", has("OutOfSync", "status", "sync", "status")))

	a.sync(t, "operations")
	within(t, time.Minute, all(a.hub.is("operations", healthy, finished(1)), a.spoke.is("operations", finished(1))))

	a.line.Set(netfault.Cut)
	a.sync(t, "operations")
	within(t, patience, a.hub.is("operations", has("Running", "status", "operationState", "phase"),
		has("waiting for agent edge-1", "status", "operationState", "message")))
	for i := range 5 {
		a.hub.patch(t, "operations", fields{"spec": fields{"info": []any{fields{"name": "edit", "value": fmt.Sprint(i)}}}})
	}
	require.NotNil(t, at(a.hub.get(t, "operations"), "operation"), "it stays asked for")
	require.NoError(t, a.spoke.is("operations", finished(1))(t.Context()))
	a.line.Set(netfault.Healthy)
	within(t, time.Minute, all(a.hub.is("operations", healthy, finished(2)), a.spoke.is("operations", finished(2))))

	a.stop(t)
	w.principal.stop(t)
	require.NoError(t, a.Start(t.Context()))
	require.NoError(t, w.principal.Start(t.Context()))
	within(t, patience, w.inStep)
	time.Sleep(5 * time.Second) // in which it would run again
	require.NoError(t, all(a.hub.is("operations", finished(2)), a.spoke.is("operations", finished(2)))(t.Context()))
}

// sync asks for a sync on the hub, as argocd app sync does.
func (a *agent) sync(t *testing.T, name string) {
	t.Helper()
	a.hub.patch(t, name, fields{
		"operation": fields{
			"initiatedBy": fields{"username": "admin"},
			"sync":        fields{"revision": "main", "prune": true, "syncOptions": []any{"CreateNamespace=true"}},
		},
	})
}

// finished returns a check that n syncs have ended well, and none is asked for or runs.
func finished(n int) func(*unstructured.Unstructured) error {
	return func(app *unstructured.Unstructured) error {
		history, _ := at(app, "status", "history").([]any)
		return equal(
			[]any{n, "Succeeded", nil},
			[]any{len(history), at(app, "status", "operationState", "phase"), at(app, "operation")},
		)
	}
}
