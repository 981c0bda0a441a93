package real

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// repository returns the Secret of a repository, of a project or of none.
func repository(name, project, password string) *unstructured.Unstructured {
	data := fields{"url": coded("https://git.example.com/" + name), "username": coded("git"), "password": coded(password)}
	if project != "" {
		data["project"] = coded(project)
	}
	return &unstructured.Unstructured{Object: fields{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": fields{"name": name, "namespace": argocd, "labels": fields{"argocd.argoproj.io/secret-type": "repository"}},
		"data":     data,
	}}
}

func coded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// repositories: the Secret of a repository goes where its project goes: also if the project
// comes later, when the Secret becomes another project's, and when the project concerns an
// agent no more. No other Secret moves.
func repositories(t *testing.T, w *world) {
	one, two := w.agent(t, "edge-1"), w.agent(t, "edge-2")
	projects, _ := one.projects()
	hub, here, there := one.hub.of(resource.Secret), one.spoke.of(resource.Secret), two.spoke.of(resource.Secret)
	project := func(name, agent string) *unstructured.Unstructured {
		return appProject(name, fields{"sourceNamespaces": []any{"edge-*"}, "destinations": []any{to(agent, "*")}})
	}
	projects.create(t, project("first", "edge-1"))
	projects.create(t, project("second", "edge-2"))

	made := hub.create(t, repository("repo-a", "first", "one"))
	hub.create(t, repository("repo-late", "third", "two"))
	hub.create(t, repository("repo-of-none", "", "three"))
	creds := repository("repo-creds", "first", "four")
	creds.SetLabels(map[string]string{"argocd.argoproj.io/secret-type": "repo-creds"})
	hub.create(t, creds)
	other := repository("not-a-repository", "first", "five")
	other.SetLabels(map[string]string{"argocd.argoproj.io/secret-type": "repository-write"})
	hub.create(t, other)
	own := here.create(t, repository("of-the-spoke", "", "six"))
	within(t, patience, all(
		here.is("repo-a", has(coded("one"), "data", "password"), has("repository", "metadata", "labels", "argocd.argoproj.io/secret-type"),
			has(string(made.GetUID()), "metadata", "annotations", "argocd.argoproj.io/source-uid")),
		here.is("repo-creds", has(coded("four"), "data", "password")),
	))
	copied := here.get(t, "repo-a").GetUID()
	projects.create(t, project("third", "edge-?"))
	within(t, patience, all(here.is("repo-late"), there.is("repo-late", has(coded("two"), "data", "password"))))
	for _, at := range []place{here, there} {
		require.NoError(t, all(at.gone("repo-of-none"), at.gone("not-a-repository"), at.gone("cluster-edge-1"))(t.Context()))
	}
	require.NoError(t, there.gone("repo-a")(t.Context()))

	// Its copy is kept as it is, and as it becomes.
	here.patch(t, "repo-a", fields{"data": fields{"password": coded("theirs")}})
	within(t, patience, here.is("repo-a", has(coded("one"), "data", "password")))
	hub.patch(t, "repo-a", fields{"data": fields{"password": coded("new")}})
	within(t, patience, here.is("repo-a", has(coded("new"), "data", "password")))
	require.Equal(t, copied, here.get(t, "repo-a").GetUID())
	one.line.Set(netfault.Cut)
	here.remove(t, "repo-a")
	within(t, patience, here.is("repo-a", has(coded("new"), "data", "password")))
	one.line.Set(netfault.Healthy)

	hub.patch(t, "repo-a", fields{"data": fields{"project": coded("second")}})
	within(t, patience, all(here.gone("repo-a"), there.is("repo-a")))
	projects.patch(t, "third", fields{"spec": fields{"destinations": []any{to("edge-2", "*")}}})
	within(t, patience, all(here.gone("repo-late"), there.is("repo-late")))
	projects.remove(t, "third")
	within(t, patience, there.gone("repo-late"))
	require.Equal(t, own.GetUID(), here.get(t, "of-the-spoke").GetUID())
	require.NoError(t, here.is("of-the-spoke", has(coded("six"), "data", "password"))(t.Context()))
	here.remove(t, "of-the-spoke")
	w.clearRepositories(t, "repo-late", "repo-of-none", "not-a-repository")
}

// repositoriesGone: repositories that are deleted while the principal is down are gone on the
// spokes once it is back.
func repositoriesGone(t *testing.T, w *world) {
	one, two := w.agent(t, "edge-1"), w.agent(t, "edge-2")
	hub, here, there := one.hub.of(resource.Secret), one.spoke.of(resource.Secret), two.spoke.of(resource.Secret)
	within(t, patience, all(here.is("repo-creds"), there.is("repo-a")))
	start := w.stopPrincipal(t)
	hub.remove(t, "repo-creds")
	hub.remove(t, "repo-a")
	time.Sleep(2 * time.Second)
	require.NoError(t, all(here.is("repo-creds"), there.is("repo-a"))(t.Context()))
	start()
	took := within(t, patience, all(here.gone("repo-creds"), there.gone("repo-a")))
	t.Logf("gone %.1f s after the principal was ready", took.Seconds())
	projects, _ := one.projects()
	projects.remove(t, "first")
	projects.remove(t, "second")
}

// repositoriesOfNone: a repository of no project goes to the managed agents only if the
// principal is told so.
func repositoriesOfNone(t *testing.T, w *world) {
	one, two := w.agent(t, "edge-1"), w.agent(t, "edge-2")
	hub, here, there := one.hub.of(resource.Secret), one.spoke.of(resource.Secret), two.spoke.of(resource.Secret)
	hub.create(t, repository("repo-of-none", "", "three"))
	start := w.stopPrincipal(t)
	c := w.principal.Config()
	c.Name += "-generous"
	c.Args = append(c.Args[:len(c.Args):len(c.Args)], "--sync-unscoped-repositories")
	generous := w.stack.Process(c)
	require.NoError(t, generous.Start(t.Context()))
	within(t, patience, all(here.is("repo-of-none", has(coded("three"), "data", "password")), there.is("repo-of-none")))
	require.NoError(t, generous.Stop(t.Context()))
	start()
	within(t, patience, all(here.gone("repo-of-none"), there.gone("repo-of-none")))
	w.clearRepositories(t, "repo-of-none")
}

func (w *world) clearRepositories(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		place{w.hub, argocd, resource.Secret}.remove(t, name)
	}
}

const keyring = "argocd-gpg-keys-cm"

// keys: the keys for signatures are the hub's on all managed agents: a spoke's own are taken
// over in place, and what is done to them there is undone.
func keys(t *testing.T, w *world) {
	one, two := w.agent(t, "edge-1"), w.agent(t, "edge-2")
	hub, here, there := one.hub.of(resource.ConfigMap), one.spoke.of(resource.ConfigMap), two.spoke.of(resource.ConfigMap)
	ring := func(key string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: fields{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": fields{"name": keyring, "namespace": argocd}, "data": fields{key: "-----BEGIN PGP PUBLIC KEY BLOCK-----"},
		}}
	}
	mine := func(key string) func(*unstructured.Unstructured) error {
		return has(fields{key: "-----BEGIN PGP PUBLIC KEY BLOCK-----"}, "data")
	}
	own := there.create(t, ring("F00D"))
	hub.create(t, ring("4AEE18F83AFDEB23"))
	within(t, patience, all(here.is(keyring, mine("4AEE18F83AFDEB23")),
		there.is(keyring, mine("4AEE18F83AFDEB23"), has(string(own.GetUID()), "metadata", "uid"))))

	here.patch(t, keyring, fields{"data": fields{"BAD": "-----BEGIN PGP PUBLIC KEY BLOCK-----"}})
	within(t, patience, here.is(keyring, mine("4AEE18F83AFDEB23")))
	here.remove(t, keyring)
	within(t, patience, here.is(keyring, mine("4AEE18F83AFDEB23")))
	hub.patch(t, keyring, fields{"data": fields{"4AEE18F83AFDEB23": nil, "CAFE": "-----BEGIN PGP PUBLIC KEY BLOCK-----"}})
	within(t, patience, all(here.is(keyring, mine("CAFE")), there.is(keyring, mine("CAFE"), has(string(own.GetUID()), "metadata", "uid"))))

	hub.remove(t, keyring)
	within(t, patience, all(here.gone(keyring), there.gone(keyring)))
}
