package real

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// travels: an Application that is created on the hub reaches the spoke, the real
// controller syncs it, and the whole status appears on the hub.
func travels(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	repo := w.repo(t, "travels")
	made := a.hub.create(t, application("travels", spec(a.name, repo.URL(), "travels")))

	took := within(t, time.Minute, a.hub.is("travels", healthy))
	t.Logf("Synced and Healthy on the hub after %.1f s", took.Seconds())
	a.sameStatus(t, "travels")
	app := a.hub.get(t, "travels")
	require.Equal(t, "Succeeded", at(app, "status", "operationState", "phase"))
	require.Len(t, at(app, "status", "resources"), 2)
	require.Len(t, at(app, "status", "history"), 1)
	require.Equal(t, made.GetUID(), app.GetUID())
	require.Nil(t, at(app, "operation"))
	require.NoError(t, deployed(a.spoke.Cluster, "travels")(t.Context()))

	copied := a.spoke.get(t, "travels")
	require.Equal(t, onSpoke(app), at(copied, "spec"))
	require.Equal(t, string(made.GetUID()), copied.GetAnnotations()["argocd.argoproj.io/source-uid"])
	require.Equal(t, w.identity(t), copied.GetAnnotations()["argocd.argoproj.io/principal-uid"])
}

// neverThere: what was created for a registered agent before it was ever started is there
// when it connects for the first time.
func neverThere(t *testing.T, w *world) {
	require.NotContains(t, w.agents, "edge-2", "it was started by no story before")
	w.register(t, "edge-2")
	a := w.newAgent(t, "edge-2")
	a.hub.create(t, application("early", spec(a.name, "https://git.example.com/early.git", "early")))
	within(t, patience, func(ctx context.Context) error {
		streams, err := w.principal.streams(ctx)
		if err == nil && streams["DOWN_edge-2"] == 0 {
			err = errors.New("the principal has nothing to say to edge-2")
		}
		return err
	})

	require.NoError(t, a.Start(t.Context()))
	took := within(t, patience, a.spoke.is("early", has("https://git.example.com/early.git", "spec", "source", "repoURL")))
	t.Logf("there %.1f s after the agent", took.Seconds())
	a.spoke.patch(t, "early", fields{"status": status(1)})
	within(t, patience, a.hub.is("early", has("revision 1", "status", "sync", "revision")))
}

// oneName: two agents have Applications of one name, which are kept apart.
func oneName(t *testing.T, w *world) {
	one, two := w.agent(t, "edge-1"), w.agent(t, "edge-2")
	repo := w.repo(t, "twins")
	const name = "twin"
	one.hub.create(t, application(name, spec(one.name, repo.URL(), "twin")))
	two.hub.create(t, application(name, spec(two.name, "https://git.example.com/twin.git", "elsewhere")))
	within(t, time.Minute, one.hub.is(name, healthy))
	within(t, patience, two.spoke.is(name, has("elsewhere", "spec", "destination", "namespace")))
	two.spoke.patch(t, name, fields{"status": status(2)})
	within(t, patience, two.hub.is(name, has("revision 2", "status", "sync", "revision")))

	one.sameStatus(t, name)
	two.sameStatus(t, name)
	for _, a := range []*agent{one, two} {
		app := a.hub.get(t, name)
		require.Equal(t, onSpoke(app), at(a.spoke.get(t, name), "spec"))
	}
	two.hub.remove(t, name)
	within(t, patience, all(two.hub.gone(name), two.spoke.gone(name)))
	require.NoError(t, all(one.hub.is(name, healthy), one.spoke.is(name, healthy))(t.Context()))
}

// repo returns a Git repository with something to deploy, which is created when it is asked
// for first.
func (w *world) repo(t *testing.T, name string) *stack.GitRepo {
	if w.repos[name] == nil {
		repo, err := w.stack.GitRepo(t.Context(), name)
		require.NoError(t, err)
		w.repos[name] = repo
	}
	return w.repos[name]
}

// identity returns the hub's, as it is written there.
func (w *world) identity(t *testing.T) string {
	m, err := configMap(t.Context(), w.hub, argocd, "argocd-agent-principal-identity")
	require.NoError(t, err)
	uid, _ := at(m, "data", "principal-uid").(string)
	require.NotEmpty(t, uid)
	return uid
}

// sameStatus expects the whole status to be the same on both sides, soon.
func (a *agent) sameStatus(t *testing.T, name string) {
	t.Helper()
	within(t, patience, func(ctx context.Context) error {
		hub, err := a.hub.objects().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		spoke, err := a.spoke.objects().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if want, is := at(spoke, "status"), at(hub, "status"); want == nil || !reflect.DeepEqual(want, is) {
			return equal(want, is)
		}
		return nil
	})
}

// onSpoke returns what the spec of the hub's Application is to be on the spoke.
func onSpoke(app *unstructured.Unstructured) fields {
	out := maps.Clone(at(app, "spec").(fields))
	out["destination"] = fields{"server": "https://kubernetes.default.svc", "namespace": at(app, "spec", "destination", "namespace")}
	return out
}

// status is one that a story writes where no controller runs.
func status(n int) fields {
	return fields{
		"sync":   fields{"status": "Synced", "revision": revision(n)},
		"health": fields{"status": "Healthy"},
	}
}

// deployed returns a check that a namespace has what a repository starts with.
func deployed(c *stack.Cluster, namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		if _, err := configMap(ctx, c, namespace, "settings"); err != nil {
			return err
		}
		_, err := deployments(c, namespace).Get(ctx, "web", metav1.GetOptions{})
		return err
	}
}

func deployments(c *stack.Cluster, namespace string) dynamic.ResourceInterface {
	return c.Dynamic().Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(namespace)
}

func configMap(ctx context.Context, c *stack.Cluster, namespace, name string) (*unstructured.Unstructured, error) {
	return c.Dynamic().Resource(configMaps).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
