package real

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

// TestAutonomous plays what becomes on the hub of the projects and Applications of autonomous
// agents: of edge-1, on whose spoke Argo CD runs, and of edge. The hub has a controller for
// Applications of its own, which leaves those of agents alone.
func TestAutonomous(t *testing.T) {
	inTurn(t, 4)
	w := newWorldOf(t, []string{"edge-1", "edge"},
		stack.ClusterConfig{Name: "hub", CRDs: true, Controllers: true}, // of which one ends foreground deletions
		stack.ClusterConfig{Name: "spoke-1", ArgoCD: true},
		stack.ClusterConfig{Name: "spoke-2", CRDs: true},
	)
	require.NoError(t, w.hub.Apply(t.Context(), fmt.Appendf(nil, controller, "team-*", 1)))
	all := []story{
		{"AProjectAndItsApplicationAreShown", projectsShown},
		{"TestScenario05_APrincipalThatRestartsAllTheTime", restartedPrincipal},
		{"TestScenario11_AnAnnotationOfTheHubsOwn", hubsAnnotation},
		{"TestScenario19_DeletedOnTheHub", deletedOnHub},
		{"ProjectsOfTheHubAreNotTouched", projectsTaken},
		{"TwoAgentsWantOneName", projectsCollide},
	}
	played := w.play(t, all)
	t.Run("RightsAreExact", func(t *testing.T) { w.audited(t, played == len(all)) })
	t.Run("ProgramsEnd", func(t *testing.T) { w.end(t) })
}

// plant is the project of an autonomous agent.
func plant() fields {
	return fields{
		"description":  "one",
		"destinations": []any{fields{"server": "https://kubernetes.default.svc", "namespace": "plant-*"}, fields{"name": "in-cluster", "namespace": "spare"}},
		"roles": []any{
			fields{"name": "dev", "groups": []any{"dev"}, "policies": []any{"p, proj:plant:dev, applications, sync, plant/*, allow"}},
			fields{"name": "root", "policies": []any{"p, proj:plant:root, applications, *, */*, allow"}},
		},
	}
}

// planted returns an autonomous agent of which the hub shows the project plant, and in it the
// Application press, which is synced.
func planted(t *testing.T, w *world) *agent {
	t.Helper()
	a := w.agent(t, "edge-1")
	hub, spoke := a.projects()
	there, err := spoke.all(t.Context())
	require.NoError(t, err)
	if there["plant"] == nil {
		spoke.create(t, appProject("plant", plant()))
		desired := spec(a.name, w.repo(t, "press").URL(), "plant-press")
		desired["project"] = "plant"
		desired["destination"] = fields{"server": "https://kubernetes.default.svc", "namespace": "plant-press"}
		a.spoke.create(t, cascading(application("press", desired)))
	}
	within(t, time.Minute, all(hub.is("edge-1-plant"), a.hub.is("press", healthy)))
	return a
}

// projectsShown: a project is shown on the hub under the agent's name, and permits nothing
// there but the agent's Applications its own cluster; of its roles those are left that speak
// of itself alone, and without their members. Edits and deletions travel.
func projectsShown(t *testing.T, w *world) {
	a := planted(t, w)
	hub, spoke := a.projects()
	original := spoke.get(t, "plant")
	cluster := func(namespace string) fields { return fields{"name": "edge-1", "namespace": namespace} }
	require.NoError(t, hub.is("edge-1-plant",
		has("one", "spec", "description"), has([]any{"edge-1"}, "spec", "sourceNamespaces"),
		has([]any{cluster("plant-*"), cluster("spare")}, "spec", "destinations"),
		has([]any{fields{"name": "dev", "policies": []any{"p, proj:edge-1-plant:dev, applications, sync, edge-1-plant/edge-1/*, allow"}}}, "spec", "roles"),
		has(string(original.GetUID()), "metadata", "annotations", "argocd.argoproj.io/source-uid"),
		has("edge-1", "metadata", "labels", "argocd-agent.argoproj-labs.io/agent-name"),
	)(t.Context()))
	require.NoError(t, a.hub.is("press", has("edge-1-plant", "spec", "project"), has("edge-1", "spec", "destination", "name"))(t.Context()))
	copied := hub.get(t, "edge-1-plant").GetUID()
	a.sameStatus(t, "press")

	spoke.patch(t, "plant", fields{"spec": fields{"description": "two"}})
	within(t, patience, hub.is("edge-1-plant", has("two", "spec", "description"), has(string(copied), "metadata", "uid")))
	a.sync(t, "press")
	within(t, time.Minute, all(a.hub.is("press", healthy, finished(2)), a.spoke.is("press", finished(2))))

	spoke.create(t, appProject("passing", plant()))
	a.spoke.create(t, application("passing", fields{
		"project": "passing", "source": fields{"repoURL": w.repo(t, "press").URL(), "path": "."}, "destination": fields{"server": "https://kubernetes.default.svc", "namespace": "spare"},
	}))
	within(t, patience, all(hub.is("edge-1-passing"), hub.is("edge-1-default"), a.hub.is("passing", has("edge-1-passing", "spec", "project"))))
	a.spoke.remove(t, "passing")
	spoke.remove(t, "passing")
	within(t, patience, all(hub.gone("edge-1-passing"), a.hub.gone("passing")))
}

// restartedPrincipal: the principal is restarted ten times, half of them with the agent away.
// Nothing of an autonomous agent is deleted or even touched on the hub.
func restartedPrincipal(t *testing.T, w *world) {
	a := planted(t, w)
	w.silent(t, 0)
	before, err := w.hubs(t.Context(), a)
	require.NoError(t, err)
	for i := range 10 {
		if i == 5 {
			a.stop(t)
		}
		w.principal.stop(t)
		require.NoError(t, w.principal.Start(t.Context()))
		now, err := w.hubs(t.Context(), a)
		require.NoError(t, err)
		require.Equal(t, before, now, "after restart %d", i+1)
	}
	time.Sleep(3 * time.Second)
	require.NoError(t, a.Start(t.Context()))
	within(t, patience, w.inStep)
	w.silent(t, 0)
	now, err := w.hubs(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, before, now)
}

// hubs returns the UIDs and versions of what the hub has of an autonomous agent.
func (w *world) hubs(ctx context.Context, a *agent) (map[string]string, error) {
	out := map[string]string{}
	projects, _ := a.projects()
	for _, p := range []place{a.hub, projects} {
		there, err := p.all(ctx)
		if err != nil {
			return nil, err
		}
		for name, o := range there {
			if o.GetLabels()["argocd-agent.argoproj-labs.io/agent-name"] == a.name {
				out[fmt.Sprint(p.kind, " ", name)] = string(o.GetUID()) + " " + o.GetResourceVersion()
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the hub has nothing of " + a.name)
	}
	return out, nil
}

// hubsAnnotation: what the hub's notifications controller notes on a copy stays there, however
// often its original changes.
func hubsAnnotation(t *testing.T, w *world) {
	a := planted(t, w)
	const key, value = "notified.notifications.argoproj.io", `{"on-deployed":1}`
	a.hub.patch(t, "press", annotated(key, value))
	for i := range 50 {
		a.spoke.patch(t, "press", annotated("rev", fmt.Sprint(i)))
	}
	within(t, patience, a.hub.is("press", has("49", "metadata", "annotations", "rev"), has(value, "metadata", "annotations", key)))
	require.NotContains(t, a.spoke.get(t, "press").GetAnnotations(), key)
	a.spoke.patch(t, "press", annotated("rev", nil))
	within(t, patience, a.hub.is("press", has(nil, "metadata", "annotations", "rev"), has(value, "metadata", "annotations", key)))
	a.hub.patch(t, "press", annotated(key, nil))
}

// deletedOnHub: what is deleted or edited on the hub of an autonomous agent's is back at once,
// an Application with its status.
func deletedOnHub(t *testing.T, w *world) {
	a := planted(t, w)
	hub, _ := a.projects()
	status, uid := at(a.hub.get(t, "press"), "status"), a.hub.get(t, "press").GetUID()
	a.hub.remove(t, "press") // it has Argo CD's finalizer, which nobody takes off there but the principal
	took := within(t, 5*time.Second, a.hub.is("press", has(nil, "metadata", "deletionTimestamp"), another(uid), has(status, "status")))
	t.Logf("back with its status after %.2f s", took.Seconds())
	require.NoError(t, a.hub.is("press", has([]any{finalizer}, "metadata", "finalizers"))(t.Context()))

	uid = hub.get(t, "edge-1-plant").GetUID()
	hub.remove(t, "edge-1-plant")
	within(t, 5*time.Second, hub.is("edge-1-plant", another(uid), has([]any{"edge-1"}, "spec", "sourceNamespaces")))
	hub.patch(t, "edge-1-plant", fields{"spec": fields{"sourceNamespaces": []any{"*"}, "destinations": []any{to("*", "*")}}})
	within(t, 5*time.Second, hub.is("edge-1-plant", has([]any{"edge-1"}, "spec", "sourceNamespaces"), has("edge-1", "metadata", "labels", "argocd-agent.argoproj-labs.io/agent-name")))
	require.NoError(t, all(a.spoke.is("press", healthy), deployed(a.spoke.Cluster, "plant-press"))(t.Context()))
}

// projectsTaken: a project that is the hub's own is not overwritten by that of an agent which
// would have its name there; once it has gone the agent's takes its place.
func projectsTaken(t *testing.T, w *world) {
	a := planted(t, w)
	hub, spoke := a.projects()
	own := hub.create(t, appProject("edge-1-taken", fields{"description": "the hub's own", "destinations": []any{to("hub", "*")}}))
	spoke.create(t, appProject("taken", plant()))
	within(t, patience, w.refused("edge-1", "AppProject/taken"))
	spoke.patch(t, "taken", fields{"spec": fields{"description": "again"}})
	time.Sleep(3 * time.Second)
	now := hub.get(t, "edge-1-taken")
	require.Equal(t, own.GetResourceVersion(), now.GetResourceVersion())
	spoke.remove(t, "taken")
	time.Sleep(3 * time.Second)
	require.Equal(t, own.GetUID(), hub.get(t, "edge-1-taken").GetUID(), "neither is it deleted")

	spoke.create(t, appProject("taken", plant()))
	within(t, patience, w.refused("edge-1", "AppProject/taken"))
	hub.remove(t, "edge-1-taken")
	within(t, patience, hub.is("edge-1-taken", has([]any{"edge-1"}, "spec", "sourceNamespaces")))
	spoke.remove(t, "taken")
	within(t, patience, hub.gone("edge-1-taken"))
}

// projectsCollide: two agents have projects that would be of one name on the hub. The first is
// there; the other is refused, and touches nothing.
func projectsCollide(t *testing.T, w *world) {
	one, other := w.agent(t, "edge-1"), w.agent(t, "edge")
	hub, first := one.projects()
	_, second := other.projects()
	made := first.create(t, appProject("shop", plant()))
	ours := has(string(made.GetUID()), "metadata", "annotations", "argocd.argoproj.io/source-uid")
	within(t, patience, hub.is("edge-1-shop", ours))
	before := hub.get(t, "edge-1-shop")
	second.create(t, appProject("1-shop", plant()))
	within(t, patience, w.refused("edge", "AppProject/1-shop"))
	second.patch(t, "1-shop", fields{"spec": fields{"description": "again"}})
	time.Sleep(3 * time.Second)
	second.remove(t, "1-shop")
	time.Sleep(3 * time.Second)
	require.Equal(t, before.GetResourceVersion(), hub.get(t, "edge-1-shop").GetResourceVersion())
	first.patch(t, "shop", fields{"spec": fields{"description": "two"}})
	within(t, patience, hub.is("edge-1-shop", ours, has("two", "spec", "description")))
	first.remove(t, "shop")
	within(t, patience, hub.gone("edge-1-shop"))
}

// another returns a check that an object is not the one with that UID.
func another(uid types.UID) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o.GetUID() == uid {
			return errors.New("it is the same object")
		}
		return nil
	}
}

// refused returns a check that the hub has a dead letter about a key of an agent.
func (w *world) refused(agent, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		desk, err := admin.NewClient(w.desk())
		if err != nil {
			return err
		}
		letters, err := desk.Letters(ctx, agent)
		if err != nil {
			return err
		}
		for _, l := range letters.Letters {
			if l.Side == admin.HubSide && l.Key == key {
				return nil
			}
		}
		return fmt.Errorf("there is no letter about %s of %s in %v", key, agent, letters.Letters)
	}
}
