package real

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// emptied: all Applications go from the hub while the principal is down. All copies are
// held until the Applications are made again, of the same manifests and under other UIDs:
// then each is taken over in place.
func emptied(t *testing.T, w *world) {
	e := w.estate(t)
	start := w.stopPrincipal(t)
	one, two := e.one.hub.plan(t), e.two.hub.plan(t)
	e.one.hub.wipe(t)
	e.two.hub.wipe(t)
	start()
	within(t, patience, all(w.holds(e.one, e.one.names(t)...), w.holds(e.two, e.two.names(t)...)))
	e.stays(t, 3*time.Second)

	e.two.hub.apply(t, two[:4])
	within(t, patience, w.holds(e.two, plainNames(4, plainCount)...))
	e.one.hub.apply(t, one)
	e.two.hub.apply(t, two[4:])
	within(t, time.Minute, all(e.inStep, e.one.sources(e.identity(t)), e.two.sources(e.identity(t)), e.one.hub.is("vault", healthy), w.holds(e.one), w.holds(e.two)))
	require.NoError(t, e.intact(t.Context()))
}

// reapplied: while the principal is down the hub's namespaces of the agents go with all that
// is in them, and everything is made again of its manifests. Nothing is gone then: there is
// nothing to hold, and each copy is taken over in place by another UID.
func reapplied(t *testing.T, w *world) {
	e := w.estate(t)
	start := w.stopPrincipal(t)
	for _, a := range []*agent{e.one, e.two} {
		manifests := a.hub.plan(t)
		a.hub.wipe(t)
		w.renewNamespace(t, a.name)
		a.hub.apply(t, manifests)
	}
	here, there := e.one.mark(t), e.two.mark(t)
	start()
	took := within(t, time.Minute, all(e.inStep, e.one.sources(e.identity(t)), e.two.sources(e.identity(t))))
	t.Logf("%d copies taken over in %.1f s", len(e.one.names(t))+plainCount, took.Seconds())
	within(t, patience, e.one.hub.is("vault", healthy))
	e.stays(t, 6*time.Second) // in which an agent would tell what it holds
	here.heldNone(t)
	there.heldNone(t)
}

// renewNamespace deletes a namespace of the hub, and makes it again as it was.
func (w *world) renewNamespace(t *testing.T, name string) {
	t.Helper()
	old, err := w.namespaces().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, w.namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}))
	within(t, time.Minute, w.noNamespace(name))
	again := &unstructured.Unstructured{Object: fields{"apiVersion": "v1", "kind": "Namespace"}}
	again.SetName(name)
	again.SetLabels(old.GetLabels())
	_, err = w.namespaces().Create(t.Context(), again, metav1.CreateOptions{})
	require.NoError(t, err)
}

func (w *world) noNamespace(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := w.namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("namespace %s is there", name)
		}
		return err
	}
}

// identityLost: the ConfigMap with the hub's identity is lost while the principal is down.
// The next one makes another, and is another hub: it takes the copies over in place.
func identityLost(t *testing.T, w *world) {
	e := w.estate(t)
	old := w.identity(t)
	start := w.stopPrincipal(t)
	maps := w.hub.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(argocd)
	require.NoError(t, maps.Delete(t.Context(), "argocd-agent-principal-identity", metav1.DeleteOptions{}))
	here, there := e.one.mark(t), e.two.mark(t)
	start()
	anew := w.identity(t)
	require.NotEqual(t, old, anew)
	within(t, patience, all(e.one.sources(anew), e.two.sources(anew), e.inStep))
	e.stays(t, 6*time.Second)
	here.heldNone(t)
	there.heldNone(t)
}

// namespaceDeleted: the agent's namespace is deleted on the hub. Under a principal that runs
// these are as many deletions, which are carried out, that of an Application with Argo CD's
// finalizer as one that cascades. Under none it is absence: all is held.
func namespaceDeleted(t *testing.T, w *world) {
	e := w.estate(t)
	manifests := e.two.hub.plan(t)
	e.two.hub.create(t, cascading(application("plain-vault", spec(e.two.name, "https://git.example.com/plain.git", "plain-vault"))))
	within(t, patience, e.two.spoke.is("plain-vault", has([]any{finalizer}, "metadata", "finalizers")))
	there := e.two.mark(t)
	require.NoError(t, w.namespaces().Delete(t.Context(), e.two.name, metav1.DeleteOptions{}))
	within(t, patience, e.two.spoke.is("plain-vault", terminating))
	require.NoError(t, e.two.hub.is("plain-vault", terminating)(t.Context()), "the hub waits")
	e.two.spoke.patch(t, "plain-vault", fields{"metadata": fields{"finalizers": nil}}) // as Argo CD does when all is gone
	took := within(t, time.Minute, func(ctx context.Context) error {
		left, err := e.two.spoke.all(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d copies are left", len(left))
		}
		return err
	})
	t.Logf("%d copies are gone %.1f s later", plainCount+1, took.Seconds())
	within(t, time.Minute, w.noNamespace(e.two.name))
	there.heldNone(t)

	require.NoError(t, w.hub.Namespace(t.Context(), e.two.name))
	e.two.hub.apply(t, manifests)
	within(t, patience, w.inStep)
	e.count(t)
	start := w.stopPrincipal(t)
	w.renewNamespace(t, e.two.name)
	start()
	within(t, patience, w.holds(e.two, plainNames(0, plainCount)...))
	require.NoError(t, e.intact(t.Context()))
	e.two.hub.apply(t, manifests)
	within(t, patience, all(e.two.sources(w.identity(t)), w.inStep))
	require.NoError(t, e.intact(t.Context()))
}

// approved: the absence of a few is taken for deletions that were missed. Those of more are
// held, and carried out once a user has approved them; nothing else goes.
func approved(t *testing.T, w *world) {
	e := w.estate(t)
	e.two.stop(t)
	w.wipe(t, e.two.program) // what it remembers of this day
	require.NoError(t, e.two.Start(t.Context()))
	within(t, patience, w.inStep)
	lose := func(from, to int) func(context.Context) error {
		start := w.stopPrincipal(t)
		var gone []func(context.Context) error
		for i := from; i < to; i++ {
			e.two.hub.remove(t, plainName(i))
			gone = append(gone, e.two.spoke.gone(plainName(i)))
		}
		start()
		return all(gone...)
	}
	forget := func(from, to int) {
		for i := from; i < to; i++ {
			delete(e.kept, "spoke-2: applications argocd/"+plainName(i))
		}
	}
	within(t, patience, lose(0, 3))
	forget(0, 3)
	require.NoError(t, e.intact(t.Context()))

	gone := lose(3, 6)
	within(t, patience, w.holds(e.two, plainNames(3, 6)...))
	e.stays(t, 3*time.Second)
	w.approve(t, e.two)
	within(t, patience, all(gone, w.inStep, w.holds(e.two)))
	forget(3, 6)
	require.NoError(t, e.intact(t.Context()))
}

// approve has an agent remove what it holds.
func (w *world) approve(t *testing.T, a *agent) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(w.dir, "argocd-agentctl"),
		"agent", "approve-deletions", a.name, "--yes", "--principal-address", w.desk())
	cmd.Env = []string{"TMPDIR=" + w.tmp()}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
	t.Logf("%s", output)
}
