package real

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// rightsRevoked: the principal's rights are taken from it while it runs, and across a
// restart; then an agent's are. Nothing is seen then, and nothing is removed. What was
// changed meanwhile arrives when the rights are back.
func rightsRevoked(t *testing.T, w *world) {
	e := w.estate(t)
	t.Run("OfThePrincipal", func(t *testing.T) { e.blindHub(t) })
	t.Run("OfAnAgent", func(t *testing.T) { e.powerlessAgent(t) })
}

func (e *estate) blindHub(t *testing.T) {
	restore := e.revoke(t, "hub")
	here, there, hub := e.one.mark(t), e.two.mark(t), e.principal.mark(t)
	e.unbind(t, "hub", "clusterrolebindings", "")
	e.api.Set(netfault.Cut) // a watch that runs would go on
	e.api.Set(netfault.Healthy)
	within(t, patience, hub.says("cannot list resource", "applications"))
	e.two.hub.patch(t, plainName(3), noted("unseen"))
	e.two.hub.remove(t, plainName(1))
	e.stays(t, 3*time.Second)

	e.principal.stop(t)
	hub = e.principal.mark(t)
	ready := make(chan error, 1)
	go func() { ready <- e.principal.Start(t.Context()) }()
	within(t, patience, hub.says("cannot list resource", "applications"))
	e.stays(t, 3*time.Second)
	e.unbind(t, "hub", "rolebindings", argocd)
	code, said := e.fails(t, "argocd-agent", "principal", "--kubeconfig", e.principalAccount(t), "--nats-store-dir", filepath.Join(e.dir, "blind"))
	require.Equal(t, 1, code)
	require.Equal(t, 1, strings.Count(said, "\n"), said)
	require.Contains(t, said, "forbidden")
	require.Error(t, e.two.spoke.is(plainName(3), notes("unseen"))(t.Context()))

	e.grant(t, "hub")
	require.NoError(t, <-ready, "it gets ready by itself")
	restore()
	// One deletion that nobody saw is one that was missed.
	within(t, patience, all(e.two.spoke.is(plainName(3), notes("unseen")), e.two.spoke.gone(plainName(1)), e.inStep))
	delete(e.kept, "spoke-2: applications argocd/"+plainName(1))
	require.NoError(t, e.intact(t.Context()))
	here.heldNone(t)
	there.heldNone(t)
}

func (e *estate) powerlessAgent(t *testing.T) {
	restore := e.revoke(t, "spoke-2")
	e.unbind(t, "spoke-2", "rolebindings", argocd)
	e.two.hub.patch(t, plainName(2), noted("forbidden"))
	within(t, patience, e.two.hub.is(plainName(2), condition("AgentError", "forbidden")))
	e.two.stop(t)
	require.ErrorContains(t, e.two.Start(t.Context()), "forbidden")
	require.NoError(t, e.intact(t.Context()))
	e.grant(t, "spoke-2")
	require.NoError(t, e.two.Start(t.Context()))
	restore()
	within(t, patience, all(e.two.spoke.is(plainName(2), notes("forbidden")), e.two.hub.is(plainName(2), condition("AgentError", "")), e.inStep))
	require.NoError(t, e.intact(t.Context()))
}

// unbind takes rights from our program on a cluster, and waits until that is known.
func (w *world) unbind(t *testing.T, cluster, bindings, namespace string) {
	t.Helper()
	r, c := w.rights[cluster], w.stack.Cluster(cluster)
	resource := c.Dynamic().Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: bindings})
	require.NoError(t, resource.Namespace(namespace).Delete(t.Context(), r.account, metav1.DeleteOptions{}))
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	require.NoError(t, err)
	for _, g := range r.grants {
		if g.namespace != namespace {
			continue
		}
		within(t, patience, func(ctx context.Context) error {
			if r.allowed(ctx, client, g) == nil {
				return fmt.Errorf("still allowed: %s", g)
			}
			return ctx.Err()
		})
	}
}

// condition returns a check that an Application has a condition whose message has a text;
// if that is "", that it has none of the type.
func condition(kind, text string) func(*unstructured.Unstructured) error {
	return func(app *unstructured.Unstructured) error {
		list, _ := at(app, "status", "conditions").([]any)
		for _, c := range list {
			c, _ := c.(fields)
			message, _ := c["message"].(string)
			switch {
			case c["type"] != kind:
			case text != "" && strings.Contains(message, text):
				return nil
			default:
				return fmt.Errorf("has condition %s: %s", kind, message)
			}
		}
		if text != "" {
			return fmt.Errorf("has no condition %s", kind)
		}
		return nil
	}
}

// A span is a part of an audit log.
type span struct{ from, to int }

// revoke says that what is refused to our programs on a cluster from now on, and until what
// it returns is called, is meant to be.
func (w *world) revoke(t *testing.T, cluster string) (restore func()) {
	t.Helper()
	now := func() int {
		records, err := w.stack.Cluster(cluster).Audit()
		require.NoError(t, err)
		return len(records)
	}
	from := now()
	return func() { w.revoked[cluster] = append(w.revoked[cluster], span{from, now()}) }
}

// unrevoked returns the records of a cluster's audit log without the refusals that were
// meant to be.
func (w *world) unrevoked(cluster string, records []stack.AuditRecord) (out []stack.AuditRecord) {
	for i, r := range records {
		meant := slices.ContainsFunc(w.revoked[cluster], func(s span) bool { return s.from <= i && i < s.to })
		if !meant || r.Code != http.StatusForbidden && r.Code != http.StatusUnauthorized {
			out = append(out, r)
		}
	}
	return out
}
