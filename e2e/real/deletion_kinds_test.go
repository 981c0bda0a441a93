package real

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// everyDeletion: however an Application is deleted on the hub, its copy goes in the same way:
// Argo CD's finalizer says what becomes of the workloads, and what kubectl is told about
// dependents of the object says nothing about them.
func everyDeletion(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	repo := w.repo(t, "kinds")
	kinds := []struct {
		name, finalizer string
		propagation     metav1.DeletionPropagation
		stays           bool
	}{
		{"kind-background", finalizer + "/background", metav1.DeletePropagationBackground, false},
		{"kind-foreground", finalizer + "/foreground", metav1.DeletePropagationBackground, false},
		{"kind-kubectl-foreground", finalizer, metav1.DeletePropagationForeground, false},
		{"kind-kubectl-orphan", finalizer, metav1.DeletePropagationOrphan, false},
		{"kind-no-cascade-foreground", "", metav1.DeletePropagationForeground, true},
	}
	for _, k := range kinds {
		app := application(k.name, spec(a.name, repo.URL(), k.name))
		if k.finalizer != "" {
			app.SetFinalizers([]string{k.finalizer})
		}
		a.hub.create(t, app)
	}
	for _, k := range kinds {
		within(t, 2*time.Minute, a.hub.is(k.name, healthy))
		if k.finalizer != "" {
			within(t, patience, a.spoke.is(k.name, has([]any{k.finalizer}, "metadata", "finalizers")))
		}
	}
	for _, k := range kinds {
		require.NoError(t, a.hub.objects().Delete(t.Context(), k.name, metav1.DeleteOptions{PropagationPolicy: &k.propagation}))
	}
	for _, k := range kinds {
		check := all(a.hub.gone(k.name), a.spoke.gone(k.name), undeployed(a.spoke.Cluster, k.name))
		if k.stays {
			check = all(a.hub.gone(k.name), a.spoke.gone(k.name), deployed(a.spoke.Cluster, k.name))
		}
		within(t, time.Minute, check)
	}
}

// bothDelete: what is deleted on both sides at once, or by a local user while the agent is
// away, ends with none; what a local user makes then under that name is his.
func bothDelete(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	repo := w.repo(t, "both")
	names := []string{"both", "both-away"}
	for _, name := range names {
		a.hub.create(t, cascading(application(name, spec(a.name, repo.URL(), name))))
	}
	for _, name := range names {
		within(t, time.Minute, all(a.hub.is(name, healthy), a.spoke.is(name, has([]any{finalizer}, "metadata", "finalizers"))))
	}
	a.spoke.remove(t, "both")
	a.hub.remove(t, "both")
	a.stop(t)
	a.spoke.remove(t, "both-away")
	a.hub.remove(t, "both-away")
	within(t, time.Minute, a.spoke.gone("both-away"))
	require.NoError(t, a.hub.is("both-away", terminating)(t.Context()), "it waits to be told")
	require.NoError(t, a.Start(t.Context()))
	for _, name := range names {
		within(t, time.Minute, all(a.hub.gone(name), a.spoke.gone(name), undeployed(a.spoke.Cluster, name)))
	}

	local := spec(a.name, repo.URL(), "both")
	local["destination"] = fields{"server": "https://kubernetes.default.svc", "namespace": "both"}
	made := a.spoke.create(t, application("both", local)).GetUID()
	within(t, time.Minute, a.spoke.is("both", healthy))
	time.Sleep(5 * time.Second) // in which it would be undone
	require.Equal(t, made, a.spoke.get(t, "both").GetUID())
	require.NoError(t, a.hub.gone("both")(t.Context()))
	a.spoke.remove(t, "both")
	within(t, patience, a.spoke.gone("both"))
}

// farewell is a Job that runs once its Application has been deleted.
const farewell = `apiVersion: batch/v1
kind: Job
metadata:
  name: farewell
  annotations: {argocd.argoproj.io/hook: PostDelete}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: farewell, image: "example/farewell:1"}]
`

// postDelete: the finalizers by which the spoke's Argo CD runs hooks after a deletion are its
// own. They do not travel, nobody takes them off, and the hook runs before the hub lets go.
func postDelete(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	repo := w.repo(t, "farewell")
	_, err := repo.Commit(t.Context(), map[string]string{stack.AppPath + "/farewell.yaml": farewell})
	require.NoError(t, err)
	a.hub.create(t, cascading(application("farewell", spec(a.name, repo.URL(), "farewell"))))
	own := func(app *unstructured.Unstructured) error {
		for _, f := range []string{finalizer, "post-delete-finalizer.argocd.argoproj.io", "post-delete-finalizer.argocd.argoproj.io/cleanup"} {
			if !slices.Contains(app.GetFinalizers(), f) {
				return fmt.Errorf("its finalizers are %q", app.GetFinalizers())
			}
		}
		return nil
	}
	within(t, time.Minute, all(a.hub.is("farewell", healthy), a.spoke.is("farewell", own)))
	w.silent(t, 5*time.Second)
	require.NoError(t, all(a.spoke.is("farewell", own), a.hub.is("farewell", has([]any{finalizer}, "metadata", "finalizers")))(t.Context()))

	a.hub.patch(t, "farewell", fields{"spec": fields{"info": []any{fields{"name": "edit", "value": "one"}}}})
	within(t, patience, a.spoke.is("farewell", own, func(app *unstructured.Unstructured) error {
		return equal([]any{fields{"name": "edit", "value": "one"}}, at(app, "spec", "info"))
	}))
	a.hub.remove(t, "farewell")
	jobs := a.spoke.Dynamic().Resource(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}).Namespace("farewell")
	within(t, time.Minute, func(ctx context.Context) error {
		gone := a.hub.gone("farewell")(ctx)
		job, err := jobs.Get(ctx, "farewell", metav1.GetOptions{})
		if err == nil {
			err = equal(int64(1), at(job, "status", "succeeded"))
		}
		require.False(t, gone == nil && err != nil, "the hub has let go before the hook has run: %v", err)
		return gone
	})
	require.NoError(t, all(a.spoke.gone("farewell"), undeployed(a.spoke.Cluster, "farewell"))(t.Context()))
}
