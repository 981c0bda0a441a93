package real

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// cascade: an Application with Argo CD's finalizer that is deleted on the hub waits there
// until the spoke has confirmed that it and what it deployed are gone, however long the
// agent is away.
func cascade(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	repo := w.repo(t, "cascade")
	for _, name := range []string{"cascade", "cascade-away"} {
		a.hub.create(t, cascading(application(name, spec(a.name, repo.URL(), name))))
	}
	for _, name := range []string{"cascade", "cascade-away"} {
		within(t, time.Minute, all(a.hub.is(name, healthy), a.spoke.is(name, has([]any{finalizer}, "metadata", "finalizers"))))
	}
	a.hub.remove(t, "cascade")
	took := within(t, time.Minute, all(a.hub.gone("cascade"), a.spoke.gone("cascade"), undeployed(a.spoke.Cluster, "cascade")))
	t.Logf("gone on both sides in %.1f s", took.Seconds())

	a.line.Set(netfault.Cut)
	a.hub.remove(t, "cascade-away")
	time.Sleep(3 * time.Second)
	require.NoError(t, all(
		a.hub.is("cascade-away", terminating), a.spoke.is("cascade-away", healthy), deployed(a.spoke.Cluster, "cascade-away"),
	)(t.Context()), "the hub waits, and nothing happens on the spoke")
	a.line.Set(netfault.Healthy)
	within(t, time.Minute, func(ctx context.Context) error { // the hub lets go last
		hub, spoke := a.hub.gone("cascade-away")(ctx), all(a.spoke.gone("cascade-away"), undeployed(a.spoke.Cluster, "cascade-away"))(ctx)
		require.False(t, hub == nil && spoke != nil, "the hub has let go before the spoke is done: %v", spoke)
		return hub
	})
}

// orphan: an Application without Argo CD's finalizer, or from which it was taken before the
// deletion, as argocd app delete --cascade=false does, leaves its workloads.
func orphan(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	repo := w.repo(t, "orphan")
	names := []string{"orphan", "orphan-no-cascade", "orphan-away"}
	for _, name := range names {
		app := application(name, spec(a.name, repo.URL(), name))
		if name != "orphan" {
			app = cascading(app)
		}
		a.hub.create(t, app)
	}
	for _, name := range names {
		within(t, time.Minute, a.hub.is(name, healthy))
	}
	release := fields{"metadata": fields{"finalizers": nil}}
	a.hub.remove(t, "orphan")
	a.hub.patch(t, "orphan-no-cascade", release)
	a.hub.remove(t, "orphan-no-cascade")
	within(t, patience, all(a.spoke.gone("orphan"), a.spoke.gone("orphan-no-cascade")))

	a.stop(t)
	a.hub.patch(t, "orphan-away", release)
	a.hub.remove(t, "orphan-away")
	require.NoError(t, a.hub.gone("orphan-away")(t.Context()))
	require.NoError(t, a.Start(t.Context()))
	within(t, patience, a.spoke.gone("orphan-away"))
	for _, name := range names {
		require.NoError(t, all(a.hub.gone(name), deployed(a.spoke.Cluster, name))(t.Context()))
	}
}

func terminating(app *unstructured.Unstructured) error {
	if app.GetDeletionTimestamp() == nil {
		return fmt.Errorf("is not being deleted")
	}
	return nil
}

// undeployed returns a check that a namespace has nothing of what deployed checks for.
func undeployed(c *stack.Cluster, namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, settings := configMap(ctx, c, namespace, "settings")
		_, web := deployments(c, namespace).Get(ctx, "web", metav1.GetOptions{})
		if !apierrors.IsNotFound(settings) || !apierrors.IsNotFound(web) {
			return fmt.Errorf("workloads are there in %s: %v, %v", namespace, settings, web)
		}
		return nil
	}
}
