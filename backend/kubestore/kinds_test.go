package kubestore

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// at returns what a spoke is to make of a hub's object.
func at(kind resource.Kind, namespace, name, spec string, labels map[string]string) resource.Object {
	return resource.Object{
		Key:    resource.Key{Kind: kind, Namespace: namespace, Name: name},
		Origin: resource.Origin{UID: "original", By: "hub"},
		Parts:  resource.Parts{resource.Spec: spec, resource.Meta: resource.Metadata{Labels: labels}.Text()},
	}
}

var isRepository = map[string]string{secretTypeLabel: "repository"}

// spokeStore runs a store of all kinds in a namespace of its own.
func spokeStore(t *testing.T) (*Store, users, string) {
	c := startCluster(t)
	ns := c.namespace()
	s, p := c.store(t, func(cfg *Config) { cfg.Side, cfg.Namespace, cfg.Home, cfg.Kinds = resource.Agent, ns, "", nil })
	return s, users{t, c.Dynamic(), p}, ns
}

// TestEveryKindIsWrittenAndShown: each is made, changed and removed, and its metadata is
// the owner's key by key, as an Application's is.
func TestEveryKindIsWrittenAndShown(t *testing.T) {
	s, u, ns := spokeStore(t)
	seen := events(t, s, ns)
	for _, o := range []resource.Object{
		at(resource.ConfigMap, ns, "argocd-gpg-keys-cm", `{"4AEE18F83AFDEB23":"-----BEGIN PGP"}`, nil),
		at(resource.Secret, ns, "repository", `{"project":"ZGVmYXVsdA==","url":"aHR0cHM6Ly9leGFtcGxlLmNvbQ=="}`, isRepository),
		at(resource.Secret, ns, "credentials", `{"url":"aHR0cHM6Ly9leGFtcGxlLmNvbQ=="}`, map[string]string{secretTypeLabel: "repo-creds", "team": "blue"}),
		at(resource.Project, ns, "project.with.dots", `{"destinations":[{"namespace":"*","server":"*"}],"sourceRepos":["*"]}`, nil),
	} {
		made, err := s.Write(t.Context(), o)
		require.NoError(t, err, o.Key)
		require.Equal(t, &made, (<-seen).Put)
		require.Equal(t, o.Parts, made.Parts, "nothing is lost, and nothing comes beside")
		require.Equal(t, o.Origin, made.Origin)

		u.patch(o.Key, `{"metadata":{"labels":{"user":"his"}}}`)
		edited := *(<-seen).Put
		changed := edited
		changed.Parts[resource.Spec] = map[resource.Kind]string{resource.Project: `{"sourceRepos":["https://example.com/*"]}`}[o.Key.Kind]
		if changed.Parts[resource.Spec] == "" {
			changed.Parts[resource.Spec] = `{"another":"YQ=="}`
		}
		changed, err = s.Write(t.Context(), changed)
		require.NoError(t, err, o.Key)
		require.Equal(t, &changed, (<-seen).Put)
		require.Equal(t, "his", u.get(o.Key).GetLabels()["user"])

		require.NoError(t, s.Remove(t.Context(), o.Key, changed.Version))
		u.Finish(o.Key) // no garbage collector runs here
		for e := range seen {
			if e.Gone != nil {
				require.Equal(t, backend.Gone{Key: o.Key, UID: made.UID, Seen: true}, *e.Gone)
				break
			}
		}
	}
}

// TestOnlyWhatArgoCDReadsIsShown: no other Secret or ConfigMap comes into the program's
// hands, and none is written, whatever a hub says.
func TestOnlyWhatArgoCDReadsIsShown(t *testing.T) {
	s, u, ns := spokeStore(t)
	seen := events(t, s, ns)
	private := at(resource.Secret, ns, "private", `{"key":"YQ=="}`, nil)
	for _, o := range []resource.Object{private, at(resource.ConfigMap, ns, "argocd-cm", `{"a":"b"}`, nil)} {
		u.Edit(o.Key, func(to *resource.Object) { to.Parts = o.Parts })
		o.Version = ""
		_, err := s.Write(t.Context(), o)
		require.ErrorIs(t, err, backend.ErrRefused)
	}
	cluster := at(resource.Secret, ns, "cluster", `{"server":"YQ=="}`, map[string]string{secretTypeLabel: "cluster"})
	_, err := s.Write(t.Context(), cluster)
	require.ErrorIs(t, err, backend.ErrRefused)
	require.ErrorContains(t, err, `"cluster", which is none of repository, repo-creds`)

	private.Parts[resource.Meta] = resource.Metadata{Labels: isRepository}.Text()
	_, err = s.Write(t.Context(), private)
	require.ErrorIs(t, err, backend.ErrRefused, "of that name there is one that is somebody's")
	require.Equal(t, map[string]any{"key": "YQ=="}, u.get(private.Key).Object["data"])

	elsewhere := at(resource.Project, "default", "project", `{}`, nil)
	_, err = s.Write(t.Context(), elsewhere)
	require.ErrorIs(t, err, backend.ErrRefused)
	require.Empty(t, seen)
}

// TestACopyOutOfSightIsUncovered: who takes away the label by which Argo CD knows a
// repository deletes it, as far as Argo CD can tell; the copy gets it back.
func TestACopyOutOfSightIsUncovered(t *testing.T) {
	s, u, ns := spokeStore(t)
	seen := events(t, s, ns)
	want := at(resource.Secret, ns, "repository", `{"url":"YQ=="}`, isRepository)
	made, err := s.Write(t.Context(), want)
	require.NoError(t, err)
	require.NotNil(t, (<-seen).Put)
	u.patch(want.Key, `{"metadata":{"labels":null},"data":{"url":"Yg=="}}`)
	require.NotNil(t, (<-seen).Gone)

	again, err := s.Write(t.Context(), want)
	require.NoError(t, err)
	require.Equal(t, made.UID, again.UID, "it is the same object")
	require.Equal(t, made.Parts, again.Parts)
	require.Equal(t, &again, (<-seen).Put)
}

// TestHomeIsOneNamespace: a hub follows Applications everywhere, and all else at home.
func TestHomeIsOneNamespace(t *testing.T) {
	c := startCluster(t)
	home, away := c.namespace(), c.namespace()
	s, p := c.store(t, func(cfg *Config) { cfg.Home, cfg.Kinds = home, nil })
	u := users{t, c.Dynamic(), p}
	seen := events(t, s, home)
	there := events(t, s, away)
	for _, ns := range []string{away, home} {
		u.Edit(at(resource.Project, ns, "project", "", nil).Key, func(o *resource.Object) { o.Parts[resource.Spec] = `{"sourceRepos":["*"]}` })
		_, err := u.client.Resource(secrets).Namespace(ns).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "repository", "labels": map[string]any{secretTypeLabel: "repository"}},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	u.Edit(app(away, "a").Key, func(o *resource.Object) { o.Parts[resource.Spec] = spec })
	require.Equal(t, resource.Application, (<-there).Put.Key.Kind)
	kinds := []resource.Kind{(<-seen).Put.Key.Kind, (<-seen).Put.Key.Kind}
	require.ElementsMatch(t, []resource.Kind{resource.Project, resource.Secret}, kinds)
	require.Empty(t, there)
}
