package oracle

import (
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/sync/project"
)

const local = "https://kubernetes.default.svc"

func serverOf(agent string) string { return "https://proxy:9090?agentName=" + agent }

// edge is the agent that the tests are about.
func edge() project.Agent { return project.Agent{Name: "edge-1", Server: serverOf("edge-1")} }

// project returns a project whose patterns have something to do with edge.
func (g *generator) project() v1alpha1.AppProject {
	one := func(of ...string) string { return of[g.IntN(len(of))] }
	p := v1alpha1.AppProject{ObjectMeta: metav1.ObjectMeta{Name: "ships", Namespace: "argocd"}}
	for range g.IntN(4) {
		p.Spec.Destinations = append(p.Spec.Destinations, v1alpha1.ApplicationDestination{
			Name:      one("", "*", "edge-1", "edge-*", "edge-2", "!edge-1", "!edge-2", "!edge-?", "in-cluster", "{edge-1,edge-2}", "["),
			Server:    one("", "*", serverOf("edge-1"), serverOf("*"), serverOf("edge-2"), "!"+serverOf("edge-1"), "!"+serverOf("edge-2"), local, "!"+local, "https://*"),
			Namespace: one("", "*", "app", "app-*", "kube-*", "!kube-*", "!app", "**"),
		})
	}
	p.Spec.SourceNamespaces = some(g, "*", "edge-1", "edge-?", "edge-2", "/^edge-[0-9]$/", "/^other$/")
	p.Spec.SourceRepos = some(g, "*", "https://git.example.com/*", "!https://git.example.com/secret", "https://git.example.com/a.git", "!*")
	return p
}

// spec returns a project's spec as we read it.
func spec(t *testing.T, p v1alpha1.AppProject) map[string]any {
	return tree(t, encoded(t, p.Spec)).(map[string]any)
}

// read returns a project as Argo CD reads what we write.
func read(t *testing.T, spec map[string]any) v1alpha1.AppProject {
	return v1alpha1.AppProject{
		ObjectMeta: metav1.ObjectMeta{Name: "ships", Namespace: "argocd"},
		Spec:       *decoded[v1alpha1.AppProjectSpec](t, encoded(t, spec)),
	}
}

func permits(t *testing.T, p v1alpha1.AppProject, name, server, namespace string) bool {
	t.Helper()
	ok, err := p.IsDestinationPermitted(v1alpha1.ApplicationDestination{Name: name, Server: server, Namespace: namespace},
		func(string) ([]*v1alpha1.Cluster, error) { return nil, nil })
	require.NoError(t, err)
	return ok
}

func namespaces() []string {
	return []string{"app", "app-1", "kube-system", "kube-public", "other"}
}

func TestPermits(t *testing.T) {
	everySeed(t, func(t *testing.T, g *generator) {
		p := g.project()
		for _, name := range []string{"", "edge-1", "edge-2", "in-cluster", "hub"} {
			for _, server := range []string{"", serverOf("edge-1"), serverOf("edge-2"), local, "http://other"} {
				for _, namespace := range append(namespaces(), "") {
					want := permits(t, p, name, server, namespace)
					got := project.Permits(spec(t, p), project.Target{Name: name, Server: server, Namespace: namespace})
					require.Equal(t, want, got, "%q %q %q in %+v", name, server, namespace, p.Spec.Destinations)
				}
			}
		}
	})
}

// TestAProjectReachesItsAgents holds that a project by which Argo CD on the hub permits an
// Application concerns its agent, and that the agent's copy permits on the spoke what the
// project does on the hub, and on no other cluster anything.
func TestAProjectReachesItsAgents(t *testing.T) {
	everySeed(t, func(t *testing.T, g *generator) {
		p, a := g.project(), edge()
		a.Destination = g.IntN(2) == 0
		guest := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: a.Name}}
		serves := a.Destination || p.IsAppNamespacePermitted(guest, "argocd")
		concerns := project.Concerns(spec(t, p), a)
		copied := read(t, project.ForAgent(spec(t, p), a))
		// A project of no namespace whose destinations are the spoke's own looks like a copy.
		copylike := !serves && len(p.Spec.SourceNamespaces) == 0
		excludes := strings.Contains(string(encoded(t, p.Spec.Destinations)), `"namespace":"!`)
		for _, namespace := range namespaces() {
			hub := serves && permits(t, p, a.Name, a.Server, namespace)
			spoke := permits(t, copied, "in-cluster", local, namespace)
			if hub {
				require.True(t, concerns, "%+v", p.Spec)
			}
			if spoke && !copylike {
				require.True(t, hub, "%s is permitted by %+v of %+v", namespace, copied.Spec, p.Spec)
			}
			if hub && !excludes { // else a copy may be stricter
				require.True(t, spoke, "%s is forbidden by %+v of %+v", namespace, copied.Spec, p.Spec)
			}
			for _, other := range []string{"edge-2", "hub", "somewhere"} {
				require.False(t, permits(t, copied, other, serverOf(other), namespace), "%+v of %+v", copied.Spec, p.Spec)
			}
		}
	})
}

func TestAProjectKeepsItsSources(t *testing.T) {
	everySeed(t, func(t *testing.T, g *generator) {
		p := g.project()
		_, claimed := project.Claim("ships", spec(t, p), edge(), false)
		for _, made := range []v1alpha1.AppProject{read(t, project.ForAgent(spec(t, p), edge())), read(t, claimed)} {
			for _, url := range []string{"https://git.example.com/a", "https://git.example.com/secret", "https://elsewhere/x.git", "git@git.example.com:a"} {
				source := v1alpha1.ApplicationSource{RepoURL: url}
				require.Equal(t, p.IsSourcePermitted(source), made.IsSourcePermitted(source), url)
			}
		}
	})
}

// TestAClaimedProjectPermitsItsAgentOnly holds that what a spoke says of its projects permits
// nothing on the hub but the spoke's own cluster, from its own namespace.
func TestAClaimedProjectPermitsItsAgentOnly(t *testing.T) {
	everySeed(t, func(t *testing.T, g *generator) {
		p := g.project()
		_, made := project.Claim("ships", spec(t, p), edge(), false)
		claimed := read(t, made)
		for _, namespace := range namespaces() {
			for name, server := range map[string]string{"edge-2": serverOf("edge-2"), "in-cluster": local, "hub": "https://hub"} {
				require.False(t, permits(t, claimed, name, server, namespace), "%+v of %+v", claimed.Spec, p.Spec)
			}
			if permits(t, claimed, "edge-1", serverOf("edge-1"), namespace) {
				require.NotEmpty(t, p.Spec.Destinations)
			}
		}
		for namespace, want := range map[string]bool{"edge-1": true, "edge-2": false, "other": false, "argocd": true} {
			guest := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: namespace}}
			require.Equal(t, want, claimed.IsAppNamespacePermitted(guest, "argocd"), namespace)
		}
	})
}
