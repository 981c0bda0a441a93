package real

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// soon bounds what the issue calls seconds.
const soon = 10 * time.Second

// apart: the link is cut, both sides change, the link is healed, and both are equal within
// seconds.
func apart(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	repo := w.repo(t, "apart")
	a.hub.create(t, application("apart", spec(a.name, repo.URL(), "apart")))
	within(t, time.Minute, a.hub.is("apart", healthy))

	a.line.Set(netfault.Cut)
	info := []any{fields{"name": "while", "value": "apart"}}
	a.hub.patch(t, "apart", fields{"spec": fields{"info": info}})
	commit, err := repo.Commit(t.Context(), map[string]string{
		stack.AppPath + "/more.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n",
	})
	require.NoError(t, err)
	a.spoke.refresh(t, "apart")
	within(t, time.Minute, a.spoke.is("apart", healthy, has(commit, "status", "sync", "revision")))
	require.NoError(t, all(
		a.hub.is("apart", has("Synced", "status", "sync", "status")), a.spoke.is("apart", has(nil, "spec", "info")),
	)(t.Context()))
	require.NotEqual(t, commit, at(a.hub.get(t, "apart"), "status", "sync", "revision"))

	a.line.Set(netfault.Healthy)
	took := within(t, soon, all(
		a.hub.is("apart", has(commit, "status", "sync", "revision")),
		a.spoke.is("apart", has(info, "spec", "info")),
	))
	t.Logf("equal %.1f s after the link was healed", took.Seconds())
}

// away: while the agent is away one Application is changed, one created and one deleted,
// and the principal is restarted. Each needs exactly one write on the spoke.
func away(t *testing.T, w *world) {
	a := w.agent(t, "edge-2")
	for _, name := range []string{"away-changed", "away-deleted", "away-same"} {
		a.hub.create(t, application(name, spec(a.name, "https://git.example.com/away.git", name)))
	}
	within(t, patience, w.inStep)
	a.stop(t)
	before := len(w.writes(t, a))
	a.hub.patch(t, "away-changed", fields{"spec": fields{"source": fields{"targetRevision": "two"}}})
	a.hub.create(t, application("away-created", spec(a.name, "https://git.example.com/away.git", "away-created")))
	a.hub.remove(t, "away-deleted")
	w.principal.stop(t)
	require.NoError(t, w.principal.Start(t.Context()))
	require.NoError(t, a.Start(t.Context()))
	within(t, patience, all(
		a.spoke.is("away-changed", has("two", "spec", "source", "targetRevision")),
		a.spoke.is("away-created"), a.spoke.gone("away-deleted"),
	))
	w.silent(t, 0)
	writes := w.writes(t, a)[before:]
	slices.Sort(writes)
	require.Equal(t, []string{"create away-created", "delete away-deleted", "patch away-changed"}, writes)
}

// writes returns what an agent has written on its cluster, as the API server has logged it:
// the verb and the name of the Application.
func (w *world) writes(t *testing.T, a *agent) (out []string) {
	records, err := a.spoke.Audit()
	require.NoError(t, err)
	for _, r := range records {
		if r.User != w.rights[a.spoke.Name()].user() || r.Resource != "applications" || r.Code >= http.StatusBadRequest {
			continue
		}
		switch r.Verb {
		case "create":
			out = append(out, "create "+r.Name)
		case "patch", "delete":
			out = append(out, r.Verb+" "+r.Name)
		}
	}
	return out
}

// namesake: Applications are deleted and created anew under their names, first while the
// agent is away: the deletion is known, and the policy says what becomes of the copy. Then
// while the principal is down: nobody has seen a deletion, it might be a hub that was
// restored, and the copy is taken over in place. There never are two copies.
func namesake(t *testing.T, w *world) {
	a := w.agent(t, "edge-2")
	const policy = "argocd.argoproj.io/source-uid-mismatch-policy"
	cases := map[string]string{"recreated": "recreate", "upserted": "upsert", "taken-over": "recreate"}
	made := func(name, namespace string) string {
		app := application(name, spec(a.name, "https://git.example.com/namesake.git", namespace))
		app.SetAnnotations(map[string]string{policy: cases[name]})
		return string(a.hub.create(t, app).GetUID())
	}
	old := map[string]string{}
	for name := range cases {
		made(name, "old")
		within(t, patience, a.spoke.is(name))
		a.spoke.patch(t, name, fields{"status": status(1)})
		within(t, patience, a.hub.is(name, has(revision(1), "status", "sync", "revision")))
		old[name] = string(a.spoke.get(t, name).GetUID())
	}
	anew := map[string]string{}
	again := func(name string) {
		a.hub.remove(t, name)
		anew[name] = made(name, "anew")
	}
	a.stop(t)
	again("recreated")
	again("upserted")
	require.NoError(t, a.Start(t.Context()))
	w.principal.stop(t)
	again("taken-over")
	require.NoError(t, w.principal.Start(t.Context()))
	for name, uid := range anew {
		within(t, patience, a.spoke.is(name,
			has(uid, "metadata", "annotations", "argocd.argoproj.io/source-uid"), has("anew", "spec", "destination", "namespace")))
	}
	w.silent(t, 0)
	for name, uid := range anew {
		hub, spoke := a.hub.get(t, name), a.spoke.get(t, name)
		require.Equal(t, uid, string(hub.GetUID()))
		require.Equal(t, name != "recreated", string(spoke.GetUID()) == old[name], "%s is the same object", name)
	}
	require.Nil(t, at(a.hub.get(t, "recreated"), "status"), "the status of the old one")
}

// metadataApart: edits of nothing but labels and nothing but annotations arrive, too.
func metadataApart(t *testing.T, w *world) {
	a := w.agent(t, "edge-2")
	for _, name := range []string{"only-label", "only-annotation"} {
		app := application(name, spec(a.name, "https://git.example.com/metadata.git", name))
		app.SetLabels(map[string]string{"example.com/old": "yes"})
		app.SetAnnotations(map[string]string{"example.com/old": "yes"})
		a.hub.create(t, app)
	}
	within(t, patience, w.inStep)
	a.line.Set(netfault.Cut)
	a.hub.patch(t, "only-label", fields{"metadata": fields{"labels": fields{ownKey: "new", "example.com/old": nil}}})
	a.hub.patch(t, "only-annotation", fields{"metadata": fields{"annotations": fields{ownKey: "new", "example.com/old": nil}}})
	a.line.Set(netfault.Healthy)
	within(t, soon, all(
		a.spoke.is("only-label", meta(ownKey, "new", ""), meta("example.com/old", "", "yes")),
		a.spoke.is("only-annotation", meta(ownKey, "", "new"), meta("example.com/old", "yes", "")),
	))
}

// unseen: an Application is deleted while the principal cannot reach the hub's API server,
// which has forgotten it when it can: its watch has expired, and the list that follows lacks
// the object. It is treated as the deletion that it is.
func unseen(t *testing.T, w *world) {
	a := w.agent(t, "edge-2")
	a.hub.create(t, application("unseen", spec(a.name, "https://git.example.com/unseen.git", "unseen")))
	within(t, patience, w.inStep)
	w.api.Set(netfault.Cut)
	a.hub.remove(t, "unseen")
	before := w.lists(t)
	// A restarted API server knows of nothing that happened before.
	w.without(t, w.hub, w.principal, a.program)
	w.api.Set(netfault.Healthy)
	within(t, time.Minute, a.spoke.gone("unseen"))
	require.Greater(t, w.lists(t), before, "the principal had to list anew")
	require.True(t, w.principal.Running())
	within(t, patience, w.principal.ready)
	w.without(t, a.spoke.Cluster, a.program, w.principal)
	within(t, patience, a.ready)
}

// without stops the API server of a cluster until its program says that it cannot work, which is alive
// all the same, and neither a reason to restart it nor one for the program on the other side.
func (w *world) without(t *testing.T, c *stack.Cluster, its, other *program) {
	server := c.Process(stack.APIServer)
	require.NoError(t, server.Stop(t.Context()))
	within(t, patience, func(ctx context.Context) error { return its.answers(ctx, "/readyz", http.StatusServiceUnavailable) })
	require.NoError(t, its.answers(t.Context(), "/livez", http.StatusOK))
	require.NoError(t, its.answers(t.Context(), "/startupz", http.StatusOK))
	require.NoError(t, other.answers(t.Context(), "/readyz", http.StatusOK))
	defer w.revoke(t, c.Name())() // an API server that has just started knows no roles yet
	require.NoError(t, server.Start(t.Context()))
	w.granted(t, c.Name())
}

// lists counts how often the principal has listed Applications.
func (w *world) lists(t *testing.T) (n int) {
	records, err := w.hub.Audit()
	require.NoError(t, err)
	for _, r := range records {
		if r.User == w.rights["hub"].user() && r.Resource == "applications" && r.Verb == "list" {
			n++
		}
	}
	return n
}

func revision(n int) string { return fmt.Sprint("revision ", n) }
