package real

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// TestDestination plays what becomes of Applications where their destination says which agent
// has them: edge-1 and edge-2, on whose spokes Argo CD runs, and beside them edge-3, which is
// autonomous. One is there over NATS, the others over gRPC. The hub has Argo CD's own server and
// its ApplicationSet controller.
func TestDestination(t *testing.T) {
	inTurn(t, 7)
	by := func(more ...string) []string {
		return append([]string{"--destination-based-mapping", "--allowed-namespaces", "team-*"}, more...)
	}
	w := newWorldBy(t, map[string][]string{
		"":       {"--destination-based-mapping", "--allowed-namespaces", "team-*,private", "--transport=nats,grpc"},
		"edge-1": by("--create-namespace"), "edge-2": by(grpc), "edge-3": {grpc},
	}, []string{"edge-3"},
		stack.ClusterConfig{Name: "hub", Server: true, RedisProxy: true, ApplicationSets: true, ApplicationNamespaces: []string{"team-*", "edge-3", "private"}},
		stack.ClusterConfig{Name: "spoke-1", ArgoCD: true, ApplicationNamespaces: []string{"team-*"}},
		stack.ClusterConfig{Name: "spoke-2", ArgoCD: true, ApplicationNamespaces: []string{"team-*"}},
		stack.ClusterConfig{Name: "spoke-3", CRDs: true},
	)
	for _, ns := range []string{"team-a", "team-b", "private"} {
		require.NoError(t, w.hub.Namespace(t.Context(), ns))
	}
	require.NoError(t, w.stack.Cluster("spoke-2").Namespace(t.Context(), "team-a"))
	for _, name := range []string{"edge-1", "edge-2", "edge-3"} {
		w.agent(t, name)
	}
	played := 0
	for _, s := range []story{
		{"ApplicationsReachTheAgentsTheyName", destined},
		{"ANamespaceThatIsNotThere", noSuchNamespace},
		{"AnAutonomousAgentBeside", autonomousBeside},
		{"TestScenario10_TeamsKeepApart", teams},
		{"AMoveThatThePrincipalDiesIn", movedAndKilled},
		{"AMoveFromAnAgentThatIsAway", movedWhileAway},
		{"ApplicationSetsGenerateForSeveralAgents", generated},
	} {
		t.Run(s.name, func(t *testing.T) {
			played++
			t.Cleanup(w.heal)
			s.play(t, w)
			agreed := within(t, time.Minute, func(ctx context.Context) error {
				_, err := w.tryToAsk(ctx, "verify")
				return err
			})
			t.Logf("both sides agree %.1f s later", agreed.Seconds())
		})
	}
	for _, name := range []string{"edge-1", "edge-2"} {
		a := w.agent(t, name)
		hub, spoke := a.in("team-a")
		t.Run("Live/"+name, func(t *testing.T) { played++; lives(t, w.look(t, a, hub, spoke, "live-"+name)) })
	}
	w.silent(t, 10*time.Second)
	t.Run("NothingIsRefused", func(t *testing.T) { w.audited(t, false) })
	t.Run("ProgramsEnd", func(t *testing.T) { w.end(t) })
	require.NotZero(t, played)
}

// in returns the places of a namespace on the hub and on an agent's spoke.
func (a *agent) in(namespace string) (hub, spoke place) {
	hub, spoke = a.hub, a.spoke
	hub.namespace, spoke.namespace = namespace, namespace
	return hub, spoke
}

// destined: an Application in any allowed namespace reaches the agent that its destination
// names, is in the same namespace there, and its status comes back; Argo CD's own CLI shows it
// on the hub.
func destined(t *testing.T, w *world) {
	one, two := w.agent(t, "edge-1"), w.agent(t, "edge-2")
	repo := w.repo(t, "destined").URL()
	for _, c := range []struct {
		a         *agent
		namespace string
	}{{one, "team-a"}, {one, "team-b"}, {one, argocd}, {two, "team-a"}} {
		hub, spoke := c.a.in(c.namespace)
		name := "destined-" + c.a.name
		made := hub.create(t, application(name, spec(c.a.name, repo, name+"-of-"+c.namespace)))
		within(t, time.Minute, all(hub.is(name, healthy), spoke.is(name, healthy,
			has(string(made.GetUID()), "metadata", "annotations", "argocd.argoproj.io/source-uid"))))
		require.NoError(t, deployed(spoke.Cluster, name+"-of-"+c.namespace)(t.Context()))
	}
	list, err := two.spoke.Dynamic().Resource(stack.Applications()).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1, "of the others edge-2 is told nothing")
	r, err := w.hub.ArgoCD(t.Context(), "app", "get", "team-b/destined-edge-1", "-o", "json")
	require.NoError(t, err)
	require.Zero(t, r.Code, r.Stderr)
	require.Contains(t, r.Stdout, `"Synced"`)
}

// noSuchNamespace: an Application whose namespace is not on the spoke waits there, and says
// what to do, where the agent does not make it; it is there soon after its namespace. One
// whose namespace the agent does not take is refused.
func noSuchNamespace(t *testing.T, w *world) {
	a := w.agent(t, "edge-2")
	hub, spoke := a.in("team-b")
	hub.create(t, application("early", spec(a.name, w.repo(t, "destined").URL(), "early")))
	within(t, 2*time.Minute, hub.is("early", says("AgentError", "there is no namespace team-b here: make it")))
	require.NoError(t, spoke.Namespace(t.Context(), "team-b"))
	took := within(t, 2*time.Minute, hub.is("early", healthy, silentOf("AgentError")))
	t.Logf("healthy %.1f s after its namespace was made", took.Seconds())
	forbidden, _ := a.in("private")
	forbidden.create(t, application("forbidden", spec(a.name, "https://git.example.com/x.git", "x")))
	within(t, patience, forbidden.is("forbidden", says("AgentError", "private is not among the agent's --allowed-namespaces")))
	forbidden.remove(t, "forbidden")
}

// autonomousBeside: what an autonomous agent has is shown in the namespace of its name, and
// nothing there is a managed agent's, whatever it is aimed at.
func autonomousBeside(t *testing.T, w *world) {
	a, one := w.agent(t, "edge-3"), w.agent(t, "edge-1")
	a.spoke.create(t, application("line", fields{
		"project": "default", "source": fields{"repoURL": "https://git.example.com/line.git", "path": "."},
		"destination": fields{"server": "https://kubernetes.default.svc", "namespace": "line"},
	}))
	within(t, patience, a.hub.is("line", has("edge-3", "spec", "destination", "name"), has("edge-3-default", "spec", "project")))
	a.hub.create(t, application("intruder", spec(one.name, "https://git.example.com/x.git", "x")))
	within(t, patience, a.hub.is("intruder", says("AgentPending", "edge-3 is that of an autonomous agent")))
	_, spoke := one.in("edge-3")
	require.NoError(t, spoke.gone("intruder")(t.Context()))
	a.hub.remove(t, "intruder")
}

// teams: projects with source namespaces reach the agent with them, and what they say of
// namespaces holds on the spoke: an Application in team-b's cannot be of team-a's project.
func teams(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	projects, copies := a.projects()
	repo := w.repo(t, "teams").URL()
	for _, team := range []string{"team-a", "team-b"} {
		projects.create(t, appProject(team, fields{"sourceNamespaces": []any{team}, "destinations": []any{to("edge-*", team+"-*")}}))
		within(t, patience, copies.is(team, has([]any{team}, "spec", "sourceNamespaces"), has([]any{local(a.name, team+"-*")}, "spec", "destinations")))
		hub, _ := a.in(team)
		desired := spec(a.name, repo, team+"-shop")
		desired["project"] = team
		hub.create(t, application("shop", desired))
	}
	hub, spoke := a.in("team-b")
	desired := spec(a.name, repo, "team-a-stolen")
	desired["project"] = "team-a"
	hub.create(t, application("thief", desired))
	within(t, time.Minute, hub.is("thief", says("UnknownError", "in namespace 'team-b' is not permitted to use project 'team-a'")))
	for _, team := range []string{"team-a", "team-b"} {
		at, _ := a.in(team)
		within(t, time.Minute, at.is("shop", healthy))
		require.NoError(t, deployed(a.spoke.Cluster, team+"-shop")(t.Context()))
	}
	require.NoError(t, all(undeployed(a.spoke.Cluster, "team-a-stolen"), spoke.is("thief"))(t.Context()))
	hub.remove(t, "thief")
}

// movedAndKilled: an Application is aimed at another agent, and the principal is killed at
// once, and again while the first deletes what it had deployed, which a finalizer of somebody's
// draws out. That has gone before anything is deployed by the second, and the Application is
// the same.
func movedAndKilled(t *testing.T, w *world) {
	one, two := w.agent(t, "edge-1"), w.agent(t, "edge-2")
	hub, from := one.in("team-a")
	_, at := two.in("team-a")
	made := hub.create(t, cascading(application("mover", spec(one.name, w.repo(t, "mover").URL(), "mover"))))
	within(t, time.Minute, all(hub.is("mover", healthy), deployed(from.Cluster, "mover")))
	settings := from.Dynamic().Resource(configMaps).Namespace("mover")
	hold := func(finalizers string) {
		_, err := settings.Patch(t.Context(), "settings", types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	hold(`["example.com/hold"]`)
	start := time.Now()
	hub.patch(t, "mover", fields{"spec": fields{"destination": fields{"name": two.name}}})
	w.principal.Kill()
	require.NoError(t, w.principal.Start(t.Context()))
	within(t, time.Minute, func(ctx context.Context) error {
		left, err := settings.Get(ctx, "settings", metav1.GetOptions{})
		if err == nil && left.GetDeletionTimestamp() == nil {
			err = errors.New("the settings are not being deleted yet")
		}
		return err
	})
	w.principal.Kill()
	require.NoError(t, at.gone("mover")(t.Context()))
	require.NoError(t, w.principal.Start(t.Context()))
	require.NoError(t, at.gone("mover")(t.Context()))
	hold("null")
	apart := onlyOne(t, from, at, "mover", "mover")
	within(t, time.Minute, apart(hub.is("mover", healthy, has(two.name, "spec", "destination", "name"))))
	within(t, time.Minute, apart(all(deployed(at.Cluster, "mover"), undeployed(from.Cluster, "mover"), from.gone("mover"))))
	t.Logf("moved in %.1f s", time.Since(start).Seconds())
	now := hub.get(t, "mover")
	require.Equal(t, made.GetUID(), now.GetUID())
	require.Equal(t, []string{finalizer}, now.GetFinalizers())
	require.Nil(t, now.GetDeletionTimestamp())
}

// onlyOne returns what makes of a check one that expects besides that an Application and what
// it deploys into a namespace are in one place only.
func onlyOne(t *testing.T, from, at place, name, namespace string) func(func(context.Context) error) func(context.Context) error {
	return func(check func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			// The second place first: what has gone from the first by then was there before.
			copied, shipped := at.gone(name)(ctx) != nil, undeployed(at.Cluster, namespace)(ctx) != nil
			if ctx.Err() == nil {
				require.False(t, copied && from.gone(name)(ctx) != nil, "the Application is in two places")
				require.False(t, shipped && undeployed(from.Cluster, namespace)(ctx) != nil, "it is deployed in two places")
			}
			return check(ctx)
		}
	}
}

// movedWhileAway: an Application whose agent is away waits for it, and says so, and is moved
// when that is back.
func movedWhileAway(t *testing.T, w *world) {
	one, two := w.agent(t, "edge-1"), w.agent(t, "edge-2")
	hub, from := one.in("team-a")
	_, at := two.in("team-a")
	hub.create(t, cascading(application("waits", spec(one.name, w.repo(t, "mover").URL(), "waits"))))
	within(t, time.Minute, hub.is("waits", healthy))
	one.line.Set(netfault.Cut)
	hub.patch(t, "waits", fields{"spec": fields{"destination": fields{"name": two.name}}})
	within(t, patience, hub.is("waits", says("AgentPending", "waiting for agent edge-1 to give it up")))
	time.Sleep(3 * time.Second)
	require.NoError(t, all(from.is("waits", healthy), at.gone("waits"), deployed(from.Cluster, "waits"))(t.Context()))
	one.line.Set(netfault.Healthy)
	took := within(t, time.Minute, onlyOne(t, from, at, "waits", "waits")(all(
		hub.is("waits", healthy, silentOf("AgentPending")), deployed(at.Cluster, "waits"), from.gone("waits"), undeployed(from.Cluster, "waits"),
	)))
	t.Logf("moved %.1f s after the link was healed", took.Seconds())
}

// generated: an ApplicationSet of the hub generates an Application for each of several agents;
// with an element its Application goes, and what that has deployed.
func generated(t *testing.T, w *world) {
	one, two := w.agent(t, "edge-1"), w.agent(t, "edge-2")
	elements := func(agents ...string) []any {
		var list []any
		for _, a := range agents {
			list = append(list, fields{"agent": a})
		}
		return []any{fields{"list": fields{"elements": list}}}
	}
	sets := w.hub.Dynamic().Resource(stack.Applications().GroupVersion().WithResource("applicationsets")).Namespace(argocd)
	set := &unstructured.Unstructured{Object: fields{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": fields{"name": "set"},
		"spec": fields{"generators": elements(one.name), "template": fields{
			"metadata": fields{"name": "set-{{agent}}"}, "spec": spec("{{agent}}", w.repo(t, "set").URL(), "set"),
		}},
	}}
	set, err := sets.Create(t.Context(), set, metav1.CreateOptions{})
	require.NoError(t, err)
	change := func(agents ...string) {
		t.Helper()
		within(t, patience, func(ctx context.Context) error {
			now, err := sets.Get(ctx, set.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			now.Object["spec"].(fields)["generators"] = elements(agents...)
			_, err = sets.Update(ctx, now, metav1.UpdateOptions{})
			return err
		})
	}
	first, _ := one.in(argocd)
	within(t, time.Minute, all(first.is("set-edge-1", healthy), deployed(one.spoke.Cluster, "set"), undeployed(two.spoke.Cluster, "set")))
	change(one.name, two.name)
	within(t, time.Minute, all(first.is("set-edge-1", healthy), first.is("set-edge-2", healthy), deployed(two.spoke.Cluster, "set")))
	change(two.name)
	within(t, time.Minute, all(first.gone("set-edge-1"), undeployed(one.spoke.Cluster, "set"), first.is("set-edge-2", healthy), deployed(two.spoke.Cluster, "set")))
}

// says returns a check that an Application has a condition of a type whose message contains
// a text.
func says(kind, text string) func(*unstructured.Unstructured) error {
	return func(app *unstructured.Unstructured) error {
		list, _ := at(app, "status", "conditions").([]any)
		for _, c := range list {
			if c := c.(fields); c["type"] == kind && strings.Contains(fmt.Sprint(c["message"]), text) {
				return nil
			}
		}
		return fmt.Errorf("has conditions %v", list)
	}
}

// silentOf returns a check that an Application has no condition of a type.
func silentOf(kind string) func(*unstructured.Unstructured) error {
	return func(app *unstructured.Unstructured) error {
		if says(kind, "")(app) == nil {
			return errors.New("it still says so: " + kind)
		}
		return nil
	}
}
