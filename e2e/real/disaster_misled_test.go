package real

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// misled: the principal is started with a mistake, on what the one before has left. Nothing
// is removed, and once it is started as it should be what has changed meanwhile arrives.
func misled(t *testing.T, w *world) {
	e := w.estate(t)
	t.Run("SelectorOfNothing", func(t *testing.T) {
		e.mistaken(t, w.newPrincipal(t, "--label-selector", "example.com/nobody=here"), func(here, there mark) {
			within(t, patience, all(here.says("peer is there"), there.says("peer is there")))
		})
	})
	t.Run("WrongNamespace", func(t *testing.T) { e.wrongNamespace(t) })
}

// mistaken runs another principal in place of the right one, and expects nothing to happen.
func (e *estate) mistaken(t *testing.T, p *program, then func(here, there mark)) {
	t.Helper()
	start := e.stopPrincipal(t)
	note := time.Now().Format(time.RFC3339Nano)
	here, there := e.one.mark(t), e.two.mark(t)
	require.NoError(t, p.Start(t.Context()))
	then(here, there)
	e.one.hub.patch(t, "ledger", noted(note))
	e.two.hub.patch(t, plainName(0), noted(note))
	e.stays(t, 6*time.Second)
	p.stop(t)
	require.NoError(t, e.intact(t.Context()))
	here.heldNone(t)
	there.heldNone(t)
	start()
	within(t, patience, all(
		e.one.spoke.is("ledger", notes(note)), e.two.spoke.is(plainName(0), notes(note)),
		e.one.sources(e.identity(t)), e.two.sources(e.identity(t)), e.inStep,
	))
	require.NoError(t, e.intact(t.Context()))
}

// wrongNamespace: under its own rights a principal may read nothing of another namespace,
// and ends. With those of an administrator it finds no agents there, and refuses them; and
// where it finds agents of the same names, as in the namespace of another installation, it
// is another hub with the same Applications and projects, and takes the copies over in place.
func (e *estate) wrongNamespace(t *testing.T) {
	const elsewhere = "elsewhere"
	require.NoError(t, e.hub.Namespace(t.Context(), elsewhere))
	restore := e.revoke(t, "hub")
	code, said := e.fails(t, "argocd-agent", "principal", "--kubeconfig", e.principalAccount(t), "--namespace", elsewhere, "--nats-store-dir", e.dir+"/elsewhere")
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "forbidden")
	restore()

	agents := e.secrets(t, argocd)
	certificates := slices.DeleteFunc(slices.Clone(agents), func(s *unstructured.Unstructured) bool { return s.Object["type"] != "kubernetes.io/tls" })
	agents = slices.DeleteFunc(agents, func(s *unstructured.Unstructured) bool { // its own key every principal makes
		return s.Object["type"] == "kubernetes.io/tls" || s.GetName() == "argocd-agent-principal-seal-key"
	})
	e.createSecrets(t, elsewhere, certificates)
	p := e.newPrincipal(t, "--kubeconfig", e.kubeconfig, "--kubecontext", "hub", "--namespace", elsewhere)
	hub := e.principal.mark(t)
	e.mistaken(t, p, func(here, there mark) {
		within(t, patience, all(hub.says("refused a connection", "edge-1"), hub.says("refused a connection", "edge-2")))
	})

	e.createSecrets(t, elsewhere, agents)
	same := place{e.hub, argocd, resource.Project}.get(t, "default")
	theirs := appProject("default", at(same, "spec").(fields))
	theirs.SetNamespace(elsewhere)
	place{e.hub, elsewhere, resource.Project}.create(t, theirs)
	maps := e.hub.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(elsewhere)
	m, err := maps.Get(t.Context(), "argocd-agent-principal-identity", metav1.GetOptions{})
	require.NoError(t, err)
	other, _ := at(m, "data", "principal-uid").(string)
	require.NotEqual(t, e.identity(t), other)
	e.mistaken(t, p, func(here, there mark) {
		within(t, patience, all(e.one.sources(other), e.two.sources(other)))
	})
}
