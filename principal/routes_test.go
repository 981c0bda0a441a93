package principal

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// toldOf feeds events to the routes of agent edge-1, and returns what it is told, a word
// each.
type toldOf struct{ routes }

func newRoutes() *toldOf {
	return &toldOf{routes{
		place:    Placement{Agent: "edge-1", Namespace: "argocd"},
		projects: map[string]reach{}, secrets: map[resource.Key]resource.Object{}, shown: map[resource.Key]string{},
	}}
}

func (r *toldOf) put(o resource.Object) []string { return words(r.route(backend.Event{Put: &o})) }

func (r *toldOf) gone(o resource.Object, seen bool) []string {
	return words(r.route(backend.Event{Gone: &backend.Gone{Key: o.Key, UID: o.UID, Seen: seen}}))
}

func words(events []backend.Event) (out []string) {
	for _, e := range events {
		switch {
		case e.Put != nil && e.Put.Excluded:
			out = append(out, e.Put.Key.Name+" excluded")
		case e.Put != nil:
			out = append(out, e.Put.Key.Name)
		default:
			out = append(out, fmt.Sprintf("%s gone, seen %v", e.Gone.Key.Name, e.Gone.Seen))
		}
	}
	return out
}

func hubObject(kind resource.Kind, name, spec string) resource.Object {
	return resource.Object{
		Key: resource.Key{Kind: kind, Namespace: "argocd", Name: name}, UID: "uid of " + name, Parts: resource.Parts{resource.Spec: spec},
	}
}

func projectFor(name, agents string) resource.Object {
	return hubObject(resource.Project, name, fmt.Sprintf(`{"destinations":[{"name":%q,"namespace":"*"}],"sourceNamespaces":["*"]}`, agents))
}

func repositoryOf(name, project string) resource.Object {
	return hubObject(resource.Secret, name, fmt.Sprintf(`{"project":%q}`, base64.StdEncoding.EncodeToString([]byte(project))))
}

func TestProjectsGoWhereTheyConcern(t *testing.T) {
	r := newRoutes()
	require.Empty(t, r.put(projectFor("shop", "edge-2")))
	require.Equal(t, []string{"shop"}, r.put(projectFor("shop", "edge-*")))
	require.Equal(t, []string{"shop gone, seen true"}, r.put(projectFor("shop", "edge-2")), "somebody has changed it")
	require.Empty(t, r.put(projectFor("shop", "edge-2")), "it was not there")
	require.Empty(t, r.gone(projectFor("shop", "edge-2"), true))
	require.Equal(t, []string{"shop"}, r.put(projectFor("shop", "edge-1")))
	require.Equal(t, []string{"shop gone, seen false"}, r.gone(projectFor("shop", ""), false), "nobody knows that it was deleted")
	require.Empty(t, r.put(hubObject(resource.Project, "odd", `[]`)))
	require.Equal(t, []string{"web"}, r.put(hubObject(resource.Application, "web", `{}`)), "whose that is its namespace says")
}

func TestRepositoriesFollowTheirProject(t *testing.T) {
	r := newRoutes()
	require.Empty(t, r.put(repositoryOf("git", "shop")), "of a project that nobody has heard of")
	require.Empty(t, r.put(repositoryOf("charts", "shop")))
	require.Empty(t, r.put(repositoryOf("others", "another")))
	require.Equal(t, []string{"shop", "charts", "git"}, r.put(projectFor("shop", "edge-1")))
	require.Equal(t, []string{"git gone, seen true"}, r.put(repositoryOf("git", "another")))
	require.Equal(t, []string{"git"}, r.put(repositoryOf("git", "shop")))
	require.Equal(t, []string{"charts gone, seen true"}, r.gone(repositoryOf("charts", "shop"), true))
	require.Equal(t, []string{"shop gone, seen true", "git gone, seen true"}, r.put(projectFor("shop", "edge-2")))
	require.Equal(t, []string{"shop", "git"}, r.put(projectFor("shop", "edge-1")))
	require.Equal(t, []string{"shop gone, seen false", "git gone, seen false"}, r.gone(projectFor("shop", ""), false), "what is not known of the project is not known of it")

	require.Empty(t, r.put(repositoryOf("everybody's", "")))
	r.place.Unscoped = true
	require.Equal(t, []string{"everybody's"}, r.put(repositoryOf("everybody's", "")))
}

// TestWhatIsExcludedStays: an object that is not synchronised is not one that is gone, and
// neither is a repository of a project that cannot be read.
func TestWhatIsExcludedStays(t *testing.T) {
	r := newRoutes()
	r.put(projectFor("shop", "edge-1"))
	r.put(repositoryOf("git", "shop"))
	hidden := projectFor("shop", "edge-2")
	hidden.Excluded, hidden.Parts = true, resource.Parts{}
	require.Equal(t, []string{"shop excluded", "git excluded"}, r.put(hidden))
	labelled := projectFor("shop", "edge-2")
	labelled.Parts[resource.Meta] = resource.Metadata{Labels: map[string]string{backend.IgnoreLabel: "true"}}.Text()
	require.Equal(t, []string{"shop", "git excluded"}, r.put(labelled), "the view in front excludes it")
	require.Equal(t, []string{"shop", "git"}, r.put(projectFor("shop", "edge-1")))
}
