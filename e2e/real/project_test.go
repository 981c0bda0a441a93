package real

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// projects returns the places of an agent's projects on the hub and on its spoke.
func (a *agent) projects() (hub, spoke place) {
	return a.hub.of(resource.Project), a.spoke.of(resource.Project)
}

// appProject returns a project with a spec, which permits all sources.
func appProject(name string, spec fields) *unstructured.Unstructured {
	all := fields{"sourceRepos": []any{"*"}, "clusterResourceWhitelist": []any{fields{"group": "*", "kind": "*"}}}
	for k, v := range spec {
		all[k] = v
	}
	return &unstructured.Unstructured{Object: fields{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
		"metadata": fields{"name": name, "namespace": argocd}, "spec": all,
	}}
}

// to returns a destination by the name of a cluster.
func to(name, namespace string) fields { return fields{"name": name, "namespace": namespace} }

// local is a destination in the cluster that an agent runs in, as its copies have it.
func local(agent, namespace string) fields {
	return fields{"name": agent, "namespace": namespace, "server": "https://kubernetes.default.svc"}
}

// projectsRouted: a project is copied to those agents into whose clusters it permits
// something, from whose namespaces it takes Applications, and says there what it says of
// their clusters, and nothing else. Edits travel; where it concerns an agent no more its copy
// goes, however many do so at once.
func projectsRouted(t *testing.T, w *world) {
	one, two := w.agent(t, "edge-1"), w.agent(t, "edge-2")
	hub, here := one.projects()
	_, there := two.projects()
	window := []any{fields{"kind": "deny", "schedule": "0 22 * * *", "duration": "1h", "applications": []any{"*-prod"}, "timeZone": "Europe/Berlin"}}
	made := hub.create(t, appProject("routed", fields{
		"description":      "one",
		"sourceNamespaces": []any{"edge-*"},
		"destinations":     []any{to("edge-*", "shop-*"), to("!edge-2", "spare"), to("other", "secret"), fields{"server": "https://10.0.0.1", "namespace": "*"}},
		"syncWindows":      window,
		"roles":            []any{fields{"name": "dev", "policies": []any{"p, proj:routed:dev, applications, get, routed/*, allow"}}},
	}))
	within(t, patience, here.is("routed",
		has([]any{local("edge-1", "shop-*"), local("edge-1", "spare")}, "spec", "destinations"),
		has(window, "spec", "syncWindows"), has(nil, "spec", "roles"), has(nil, "spec", "sourceNamespaces"),
		has("one", "spec", "description"), has(string(made.GetUID()), "metadata", "annotations", "argocd.argoproj.io/source-uid"),
		has(w.identity(t), "metadata", "annotations", "argocd.argoproj.io/principal-uid"),
	))
	copied := here.get(t, "routed").GetUID()
	require.NoError(t, there.gone("routed")(t.Context()), "edge-2 is denied")

	hub.patch(t, "routed", fields{"spec": fields{"description": "two", "destinations": []any{to("edge-?", "shop-*")}}})
	within(t, patience, all(
		here.is("routed", has("two", "spec", "description"), has([]any{local("edge-1", "shop-*")}, "spec", "destinations")),
		there.is("routed", has([]any{local("edge-2", "shop-*")}, "spec", "destinations")),
	))
	hub.patch(t, "routed", fields{"spec": fields{"sourceNamespaces": []any{"edge-1"}}})
	within(t, patience, there.gone("routed"))
	require.Equal(t, copied, here.get(t, "routed").GetUID())

	const many = 12 // more than an agent would take for deletions that were missed
	name := func(i int) string { return fmt.Sprint("many-", i) }
	var come, gone []func(context.Context) error
	for i := range many {
		hub.create(t, appProject(name(i), fields{"sourceNamespaces": []any{"*"}, "destinations": []any{to("edge-2", "*")}}))
		come, gone = append(come, there.is(name(i))), append(gone, there.gone(name(i)))
	}
	within(t, patience, all(come...))
	said := two.mark(t)
	for i := range many {
		hub.patch(t, name(i), fields{"spec": fields{"destinations": []any{to("edge-1", "*")}}})
	}
	took := within(t, patience, all(gone...))
	t.Logf("%d projects that concern edge-2 no more are gone there %.1f s later", many, took.Seconds())
	said.heldNone(t)
	for i := range many {
		hub.remove(t, name(i))
	}
	hub.remove(t, "routed")
	within(t, patience, here.gone("routed"))
}

// projectsKept: what is done to a copy on the spoke is undone, while the link is cut too, and
// when the agent was restarted meanwhile. The project default, which every Argo CD has, is
// taken over in place.
func projectsKept(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	hub, spoke := a.projects()
	hub.create(t, appProject("kept", fields{"description": "mine", "sourceNamespaces": []any{"*"}, "destinations": []any{to("*", "*")}}))
	within(t, patience, spoke.is("kept", has("mine", "spec", "description")))
	spoil := func() {
		t.Helper()
		made := spoke.get(t, "kept").GetUID()
		spoke.patch(t, "kept", fields{"spec": fields{"description": "theirs", "destinations": nil}})
		within(t, patience, spoke.is("kept", has("mine", "spec", "description"), has([]any{local("edge-1", "*")}, "spec", "destinations")))
		require.Equal(t, made, spoke.get(t, "kept").GetUID())
		spoke.remove(t, "kept")
		within(t, patience, spoke.is("kept", has("mine", "spec", "description")))
		require.NotEqual(t, made, spoke.get(t, "kept").GetUID())
	}
	spoil()
	a.line.Set(netfault.Cut)
	spoil()
	a.stop(t)
	spoke.patch(t, "kept", fields{"spec": fields{"description": "theirs"}})
	own := *spoke.get(t, "default")
	spoke.remove(t, "default") // and Argo CD has made one anew
	again := spoke.create(t, appProject("default", fields{"description": "the spoke's own", "destinations": []any{fields{"server": "*", "namespace": "*"}}}))
	require.NotEqual(t, own.GetUID(), again.GetUID())
	require.NoError(t, a.Start(t.Context()))
	within(t, patience, all(
		spoke.is("kept", has("mine", "spec", "description")),
		spoke.is("default", has(string(again.GetUID()), "metadata", "uid"), has(nil, "spec", "description"),
			has([]any{local("edge-1", "*")}, "spec", "destinations"),
			has(string(hub.get(t, "default").GetUID()), "metadata", "annotations", "argocd.argoproj.io/source-uid")),
	))
	a.line.Set(netfault.Healthy)
	hub.remove(t, "kept")
	within(t, patience, spoke.gone("kept"))
}

// projectsAndApplications: a project that is made together with an Application in it, in
// either order, is there when Argo CD looks for it; deleted together they go one after the
// other, so that Argo CD can end the deletion.
func projectsAndApplications(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	hub, spoke := a.projects()
	repo := w.repo(t, "together")
	for _, order := range []string{"project-first", "application-first"} {
		p := appProject(order, fields{"sourceNamespaces": []any{"edge-*"}, "destinations": []any{to("edge-*", order)}})
		desired := spec(a.name, repo.URL(), order)
		desired["project"] = order
		app := cascading(application(order, desired))
		if order == "project-first" {
			hub.create(t, p)
			a.hub.create(t, app)
		} else {
			a.hub.create(t, app)
			hub.create(t, p)
		}
		took := within(t, time.Minute, a.hub.is(order, healthy))
		t.Logf("%s: Synced and Healthy after %.1f s", order, took.Seconds())
	}
	for _, order := range []string{"project-first", "application-first"} {
		if order == "project-first" {
			hub.remove(t, order)
			a.hub.remove(t, order)
		} else {
			a.hub.remove(t, order)
			hub.remove(t, order)
		}
		within(t, time.Minute, func(ctx context.Context) error {
			_, err := spoke.objects().Get(ctx, order, metav1.GetOptions{})
			if err == nil {
				return errors.New("the project is there")
			}
			if apierrors.IsNotFound(err) {
				require.NoError(t, a.spoke.gone(order)(ctx), "the project has gone before its Application")
				return nil
			}
			return err
		})
		within(t, patience, all(a.hub.gone(order), hub.gone(order), undeployed(a.spoke.Cluster, order)))
	}
}

// projectExcluded: a project that is excluded while the link is cut is left alone on the spoke,
// and so are its repositories, whatever becomes of them on the hub, until it is not excluded
// any more.
func projectExcluded(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	hub, spoke := a.projects()
	secret, copied := a.hub.of(resource.Secret), a.spoke.of(resource.Secret)
	label := func(value any) fields {
		return fields{"metadata": fields{"labels": fields{"argocd-agent.argoproj-labs.io/ignore-sync": value}}}
	}
	hub.create(t, appProject("excluded", fields{"description": "one", "sourceNamespaces": []any{"*"}, "destinations": []any{to("edge-1", "*")}}))
	secret.create(t, repository("repo-excluded", "excluded", "one"))
	within(t, patience, all(spoke.is("excluded"), copied.is("repo-excluded")))
	made := [2]string{string(spoke.get(t, "excluded").GetUID()), string(copied.get(t, "repo-excluded").GetUID())}
	stays := all(
		spoke.is("excluded", has(made[0], "metadata", "uid"), has("one", "spec", "description")),
		copied.is("repo-excluded", has(made[1], "metadata", "uid"), has(coded("one"), "data", "password")),
	)

	a.line.Set(netfault.Cut)
	hub.patch(t, "excluded", label("true"))
	hub.patch(t, "excluded", fields{"spec": fields{"description": "two", "destinations": []any{to("edge-2", "*")}}})
	secret.patch(t, "repo-excluded", fields{"data": fields{"password": coded("two")}})
	hub.create(t, appProject("after", fields{"sourceNamespaces": []any{"*"}, "destinations": []any{to("edge-1", "*")}}))
	a.line.Set(netfault.Healthy)
	within(t, patience, spoke.is("after"))
	time.Sleep(3 * time.Second)
	require.NoError(t, stays(t.Context()))
	w.principal.stop(t)
	require.NoError(t, w.principal.Start(t.Context()))
	time.Sleep(3 * time.Second)
	require.NoError(t, stays(t.Context()))

	hub.patch(t, "excluded", fields{"spec": fields{"destinations": []any{to("edge-1", "*")}}})
	hub.patch(t, "excluded", label(nil))
	within(t, patience, all(
		spoke.is("excluded", has(made[0], "metadata", "uid"), has("two", "spec", "description")),
		copied.is("repo-excluded", has(made[1], "metadata", "uid"), has(coded("two"), "data", "password")),
	))
	hub.patch(t, "excluded", fields{"spec": fields{"destinations": []any{to("edge-2", "*")}}})
	within(t, patience, all(spoke.gone("excluded"), copied.gone("repo-excluded")))
	secret.remove(t, "repo-excluded")
	hub.remove(t, "excluded")
	hub.remove(t, "after")
}

// projectLate: an Application whose project comes much later is synced soon after, although
// Argo CD by itself would look at it again only a day later.
func projectLate(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	hub, spoke := a.projects()
	desired := spec(a.name, w.repo(t, "late").URL(), "late")
	desired["project"] = "late"
	a.hub.create(t, application("late", desired))
	within(t, patience, a.hub.is("late", func(app *unstructured.Unstructured) error {
		list, _ := at(app, "status", "conditions").([]any)
		for _, c := range list {
			if c.(fields)["type"] == "InvalidSpecError" {
				return nil
			}
		}
		return fmt.Errorf("has conditions %v", list)
	}))
	time.Sleep(20 * time.Second)
	hub.create(t, appProject("late", fields{"sourceNamespaces": []any{"*"}, "destinations": []any{to("edge-1", "late")}}))
	took := within(t, patience, a.hub.is("late", healthy))
	t.Logf("Synced and Healthy %.1f s after its project was made", took.Seconds())
	a.hub.remove(t, "late")
	hub.remove(t, "late")
	within(t, patience, all(a.spoke.gone("late"), spoke.gone("late")))
}
