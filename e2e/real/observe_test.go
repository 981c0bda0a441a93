package real

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// variant returns the program with further flags.
func (w *world) variant(p *program, name string, flags ...string) *program {
	c := p.Config()
	c.Name += "-" + name
	c.Log = p.Log()
	c.Args = append(slices.Clone(c.Args), flags...)
	return &program{Process: w.stack.Process(c), monitor: p.monitor, health: p.health}
}

// joins: an agent that observes joins a spoke on which an Application of the hub's name was
// made and has deployed something. It changes nothing there, and says what it would; one
// Application is adopted, and let go again; and an agent that does not observe does the rest.
func joins(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	repo := w.repo(t, "joined")
	a.stop(t)
	local := spec(a.name, repo.URL(), "joined")
	local["destination"] = fields{"server": "https://kubernetes.default.svc", "namespace": "joined"}
	there := application("joined", local)
	there.SetLabels(map[string]string{"team": "local"})
	there = a.spoke.create(t, there)
	within(t, time.Minute, all(a.spoke.is("joined", healthy), deployed(a.spoke.Cluster, "joined")))
	workload := a.workload(t, "joined")

	normal := a.program
	a.program = w.variant(normal, "observing", "--observe")
	require.NoError(t, a.Start(t.Context()))
	named := spec(a.name, repo.URL(), "joined")
	named["revisionHistoryLimit"] = int64(3)
	a.hub.create(t, application("joined", named))
	a.hub.create(t, application("joined-new", spec(a.name, repo.URL(), "joined-new")))

	// Nothing moves on the spoke, the hub says why, and the plan says what would be.
	for _, name := range []string{"joined", "joined-new"} {
		within(t, patience, a.hub.is(name, waiting("agent edge-1 only observes")))
	}
	w.silent(t, 10*time.Second)
	still := a.spoke.get(t, "joined")
	require.Equal(t, there.GetUID(), still.GetUID())
	require.Empty(t, still.GetAnnotations()["argocd.argoproj.io/source-uid"])
	require.NoError(t, a.spoke.gone("joined-new")(t.Context()))
	require.Nil(t, at(a.hub.get(t, "joined"), "status", "sync"), "what is there is no copy")
	plan := w.ask(t, "plan", a.name)
	require.Contains(t, plan, "take over Application/joined\n")
	require.Contains(t, plan, "\n+  revisionHistoryLimit: 3\n")
	require.Contains(t, plan, "create Application/joined-new\n")
	require.Contains(t, plan, "agent edge-1 observes: it would change 2 objects, and has adopted 0\n")

	// One is adopted: it is the hub's, and what it has deployed is as it was. That is so after
	// a restart, too.
	require.Contains(t, w.ask(t, "adopt", a.name, "joined"), "adopted 1 object of agent edge-1\n")
	require.NoError(t, a.spoke.is("joined", has(int64(3), "spec", "revisionHistoryLimit"))(t.Context()))
	within(t, patience, a.hub.is("joined", healthy, waiting("")))
	a.stop(t)
	require.NoError(t, a.Start(t.Context()))
	a.hub.patch(t, "joined", fields{"spec": fields{"revisionHistoryLimit": 4}})
	within(t, patience, a.spoke.is("joined", has(int64(4), "spec", "revisionHistoryLimit")))
	adopted := a.spoke.get(t, "joined")
	require.Equal(t, there.GetUID(), adopted.GetUID())
	require.Equal(t, "local", adopted.GetLabels()["team"])
	require.Equal(t, workload, a.workload(t, "joined"))
	require.NoError(t, a.spoke.gone("joined-new")(t.Context()))

	// It is let go: it is what it was, and follows no more.
	require.Contains(t, w.ask(t, "adopt", a.name, "joined", "--undo"), "let go 1 object of agent edge-1\n")
	was := a.spoke.get(t, "joined")
	require.Equal(t, at(there, "spec"), at(was, "spec"))
	require.Equal(t, there.GetFinalizers(), was.GetFinalizers())
	require.Equal(t, there.GetLabels(), was.GetLabels())
	for key := range was.GetAnnotations() {
		require.NotContains(t, []string{"argocd.argoproj.io/source-uid", "argocd.argoproj.io/principal-uid", "argocd-agent.argoproj-labs.io/operation-id"}, key)
	}
	a.hub.patch(t, "joined", fields{"spec": fields{"revisionHistoryLimit": 5}})
	within(t, patience, a.hub.is("joined", waiting("agent edge-1 only observes")))
	w.silent(t, 2*time.Second)
	require.NoError(t, a.spoke.is("joined", healthy)(t.Context()))
	require.Equal(t, at(there, "spec"), at(a.spoke.get(t, "joined"), "spec"))
	require.Equal(t, workload, a.workload(t, "joined"))

	// Without observing all is done that the plan says.
	a.stop(t)
	a.program = normal
	require.NoError(t, a.Start(t.Context()))
	within(t, time.Minute, all(
		a.spoke.is("joined", has(int64(5), "spec", "revisionHistoryLimit")), a.hub.is("joined", healthy, waiting("")), a.hub.is("joined-new", healthy),
	))
	require.Equal(t, there.GetUID(), a.spoke.get(t, "joined").GetUID())
	require.Equal(t, workload, a.workload(t, "joined"))
	require.Contains(t, w.ask(t, "plan", a.name), "agent edge-1 does not observe, and is about to change nothing\n")
	_, err := w.tryToAsk(t.Context(), "adopt", a.name, "joined")
	require.ErrorContains(t, err, "the agent does not observe")
}

// workload returns the UID of what an Application has deployed.
func (a *agent) workload(t *testing.T, namespace string) string {
	t.Helper()
	web, err := deployments(a.spoke.Cluster, namespace).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	return string(web.GetUID())
}

// waiting checks what the condition AgentPending says, or that there is none.
func waiting(text string) func(*unstructured.Unstructured) error {
	return func(app *unstructured.Unstructured) error {
		conditions, _ := at(app, "status", "conditions").([]any)
		for _, c := range conditions {
			m, _ := c.(fields)
			if m["type"] == "AgentPending" {
				if message, _ := m["message"].(string); text == "" || !strings.HasPrefix(message, text) {
					return fmt.Errorf("it says %q", message)
				}
				return nil
			}
		}
		if text != "" {
			return errors.New("it does not say that it waits")
		}
		return nil
	}
}

// remade: a copy that a user of the spoke has deleted, with all that it had deployed, comes
// back; and where Argo CD does not sync by itself, an agent that is told so has what was
// deployed come back, too.
func remade(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	repo := w.repo(t, "remade")
	by := spec(a.name, repo.URL(), "remade")
	by["syncPolicy"] = fields{"syncOptions": []any{"CreateNamespace=true"}}
	app := cascading(application("remade", by))
	app.Object["operation"] = fields{"initiatedBy": fields{"username": "admin"}, "sync": fields{"syncOptions": []any{"CreateNamespace=true"}}}
	a.hub.create(t, app)
	within(t, time.Minute, a.hub.is("remade", healthy))
	first := a.spoke.get(t, "remade").GetUID()

	another := func(than *unstructured.Unstructured) func(*unstructured.Unstructured) error {
		return func(app *unstructured.Unstructured) error {
			if app.GetUID() == than.GetUID() {
				return errors.New("it is the one that was deleted")
			}
			return nil
		}
	}
	// Ignored: it begins anew, on both sides, and nobody syncs it.
	before := a.spoke.get(t, "remade")
	a.spoke.remove(t, "remade")
	within(t, time.Minute, all(
		a.spoke.is("remade", another(before), has("OutOfSync", "status", "sync", "status")), undeployed(a.spoke.Cluster, "remade"),
		a.hub.is("remade", has("OutOfSync", "status", "sync", "status")),
	))
	require.Nil(t, at(a.hub.get(t, "remade"), "status", "operationState"))
	a.sameStatus(t, "remade")

	// Resynced: it is synced once.
	a.stop(t)
	normal := a.program
	a.program = w.variant(normal, "resyncing", "--on-application-recreate", "resync")
	require.NoError(t, a.Start(t.Context()))
	before = a.spoke.get(t, "remade")
	a.spoke.remove(t, "remade")
	within(t, time.Minute, all(
		a.spoke.is("remade", another(before), healthy), deployed(a.spoke.Cluster, "remade"),
		a.hub.is("remade", healthy, has("argocd-agent", "status", "operationState", "operation", "initiatedBy", "username")),
	))
	require.NotEqual(t, first, a.spoke.get(t, "remade").GetUID())
	within(t, patience, func(context.Context) error { return equal(nil, at(a.spoke.get(t, "remade"), "operation")) })
	w.silent(t, 2*time.Second)
	require.Len(t, at(a.spoke.get(t, "remade"), "status", "history"), 1, "it has run once")

	a.stop(t)
	a.program = normal
	require.NoError(t, a.Start(t.Context()))
	a.hub.remove(t, "remade")
	within(t, time.Minute, all(a.hub.gone("remade"), a.spoke.gone("remade")))
}
