package real

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// restored: the hub's etcd is restored from a snapshot, once under a principal that runs
// and once before it starts. The hub is the truth in what it has, and what it has forgotten
// is held.
func restored(t *testing.T, w *world) {
	e := w.estate(t)
	snapshot := filepath.Join(w.dir, "hub.snapshot")
	require.NoError(t, w.hub.Snapshot(t.Context(), snapshot))
	t.Run("UnderAPrincipalThatRuns", func(t *testing.T) {
		e.goBack(t, func() { w.restoreHub(t, snapshot) })
		e.remake(t)
	})
	t.Run("WhileThePrincipalIsDown", func(t *testing.T) {
		e.goBack(t, func() {
			start := w.stopPrincipal(t)
			w.restoreHub(t, snapshot)
			start()
		})
		e.giveUp(t)
	})
}

// goBack changes the hub, and expects the right thing once it is as it was.
func (e *estate) goBack(t *testing.T, restore func()) {
	note := filepath.Base(t.Name())
	e.makeSince(t)
	e.one.hub.patch(t, "ledger", noted(note))
	e.two.hub.patch(t, plainName(0), noted(note))
	e.one.hub.remove(t, "mill") // and what it has deployed stays
	e.two.hub.remove(t, plainName(11))
	within(t, time.Minute, all(
		e.one.spoke.is("since", healthy), e.one.spoke.is("ledger", notes(note)), e.one.spoke.gone("mill"),
		e.two.spoke.is("since-2"), e.two.spoke.is(plainName(0), notes(note)), e.two.spoke.gone(plainName(11)), e.inStep,
	))
	e.count(t)

	start := time.Now()
	restore()
	t.Logf("restored in %.1f s", time.Since(start).Seconds())
	took := within(t, time.Minute, all(
		e.one.spoke.is("ledger", notes("")), e.one.spoke.is("mill", healthy),
		e.two.spoke.is(plainName(0), notes("")), e.two.spoke.is(plainName(11)),
		e.holds(e.one, "since"), e.holds(e.two, "since-1", "since-2"),
	))
	t.Logf("what the hub has is on the spokes, and what it has not is held, %.1f s later", took.Seconds())
	require.NoError(t, e.intact(t.Context()))
	e.one.stop(t)
	e.stopPrincipal(t)()
	require.NoError(t, e.one.Start(t.Context()))
	within(t, patience, all(e.holds(e.one, "since"), e.holds(e.two, "since-1", "since-2")))
	require.NoError(t, e.intact(t.Context()))
}

// since are the names of what was made after the snapshot.
func since() (one, two []string) { return []string{"since"}, []string{"since-1", "since-2"} }

func (e *estate) makeSince(t *testing.T) {
	t.Helper()
	one, two := since()
	for _, name := range one {
		e.one.hub.create(t, cascading(application(name, spec(e.one.name, e.repo(t, name).URL(), name))))
	}
	for _, name := range two {
		e.two.hub.create(t, application(name, spec(e.two.name, "https://git.example.com/plain.git", name)))
	}
}

// remake makes what was lost again: it is taken over, and can then be deleted.
func (e *estate) remake(t *testing.T) {
	e.makeSince(t)
	within(t, time.Minute, all(
		e.inStep, e.one.sources(e.identity(t)), e.two.sources(e.identity(t)), e.one.hub.is("since", healthy), e.holds(e.one), e.holds(e.two),
	))
	require.NoError(t, e.intact(t.Context()))
	one, two := since()
	for _, name := range one {
		e.one.hub.remove(t, name)
		within(t, time.Minute, all(e.one.hub.gone(name), e.one.spoke.gone(name), undeployed(e.one.spoke.Cluster, name)))
	}
	for _, name := range two {
		e.two.hub.remove(t, name)
		within(t, patience, e.two.spoke.gone(name))
	}
}

// giveUp approves that what was lost is lost: the copies go, and what Argo CD has deployed
// for them stays.
func (e *estate) giveUp(t *testing.T) {
	one, two := since()
	e.approve(t, e.one)
	e.approve(t, e.two)
	for _, name := range one {
		within(t, patience, e.one.spoke.gone(name))
		delete(e.kept, "spoke-1: applications argocd/"+name)
	}
	for _, name := range two {
		within(t, patience, e.two.spoke.gone(name))
		delete(e.kept, "spoke-2: applications argocd/"+name)
	}
	within(t, patience, all(e.inStep, e.holds(e.one), e.holds(e.two)))
	require.NoError(t, e.intact(t.Context()))
}

// rebuilt: the hub's etcd is lost under a principal that runs. Then somebody makes the
// control plane again, with the certificates and agents that it had but without an
// Application, and it is another hub that has nothing: all copies are held. At last a
// snapshot of the old one is found.
func rebuilt(t *testing.T, w *world) {
	e := w.estate(t)
	old, snapshot := w.identity(t), filepath.Join(w.dir, "hub.backup")
	require.NoError(t, w.hub.Snapshot(t.Context(), snapshot))
	kept := w.secrets(t, argocd)
	w.restoreHub(t, "")
	e.stays(t, 5*time.Second)

	w.principal.stop(t)
	require.NoError(t, w.hub.InstallArgoCDCRDs(t.Context()))
	for _, name := range []string{argocd, e.one.name, e.two.name} {
		require.NoError(t, w.hub.Namespace(t.Context(), name))
	}
	w.createSecrets(t, argocd, kept)
	w.grant(t, "hub")
	w.principalAccount(t)
	require.NoError(t, w.principal.Start(t.Context()))
	require.NotEqual(t, old, w.identity(t))
	one, two := append(e.one.names(t), "AppProject/default"), append(e.two.names(t), "AppProject/default")
	within(t, patience, all(w.holds(e.one, one...), w.holds(e.two, two...)))
	e.stays(t, 3*time.Second)

	w.principal.stop(t)
	w.restoreHub(t, snapshot)
	w.principalAccount(t)
	require.NoError(t, w.principal.Start(t.Context()))
	within(t, time.Minute, all(w.inStep, e.one.sources(old), e.two.sources(old), w.holds(e.one), w.holds(e.two)))
	require.NoError(t, e.intact(t.Context()))
}

// restoreHub takes the hub's API objects back to a snapshot; "" is none at all. As whoever
// restores a cluster must, it restarts the cluster's own controllers, too.
func (w *world) restoreHub(t *testing.T, snapshot string) {
	t.Helper()
	defer w.revoke(t, "hub")() // an API server that has just started knows no roles yet
	require.NoError(t, w.hub.Restore(t.Context(), snapshot))
	if snapshot != "" {
		w.granted(t, "hub")
	}
	require.NoError(t, w.hub.Process(stack.ControllerManager).Restart(t.Context()))
}

func (w *world) secretsIn(namespace string) dynamic.ResourceInterface {
	return w.hub.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(namespace)
}

// secrets returns the manifests of the Secrets in a namespace of the hub.
func (w *world) secrets(t *testing.T, namespace string) (out []*unstructured.Unstructured) {
	t.Helper()
	list, err := w.secretsIn(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, s := range list.Items {
		manifest := &unstructured.Unstructured{Object: fields{"apiVersion": "v1", "kind": "Secret", "type": s.Object["type"], "data": s.Object["data"]}}
		manifest.SetName(s.GetName())
		manifest.SetLabels(s.GetLabels())
		manifest.SetAnnotations(s.GetAnnotations())
		out = append(out, manifest)
	}
	require.NotEmpty(t, out)
	return out
}

func (w *world) createSecrets(t *testing.T, namespace string, manifests []*unstructured.Unstructured) {
	t.Helper()
	for _, s := range manifests {
		_, err := w.secretsIn(namespace).Create(t.Context(), s.DeepCopy(), metav1.CreateOptions{})
		require.NoError(t, err)
	}
}
