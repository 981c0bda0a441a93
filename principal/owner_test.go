package principal

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

func TestOwnersByNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		defer f.end()
		f.roll <- []backend.Agent{{Name: "a"}, {Name: "b", Mode: resource.Autonomous}}
		f.settle()
		for namespace, want := range map[string]bool{"a": true, "b": true, "c": false, "argocd": false} {
			agent, link, ok := f.Owner(namespace, "web")
			require.Equal(t, want, ok, namespace)
			if ok {
				require.Equal(t, namespace, agent)
				require.Equal(t, app("", "web"), link)
			}
		}
		f.roll <- nil
		f.settle()
		_, _, ok := f.Owner("a", "web")
		require.False(t, ok)
	})
}

// Under destination mapping the owner is who has the Application, until it is somebody else's.
func TestOwnersByDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, memlink.Weather{}, 1, "a", "b")
		home, team := app("argocd", "one"), app("team-a", "one")
		y.aimAt(home, "a")
		y.aimAt(team, "b")
		y.settle()
		owner := func(k resource.Key) (string, resource.Key) {
			agent, link, ok := y.Owner(k.Namespace, k.Name)
			require.Equal(t, agent != "", ok)
			return agent, link
		}
		agent, link := owner(home)
		require.Equal(t, "a", agent)
		require.Equal(t, app("", "one"), link)
		agent, link = owner(team)
		require.Equal(t, "b", agent)
		require.Equal(t, team, link)
		agent, _ = owner(app("team-a", "other"))
		require.Empty(t, agent)

		y.line("b", false)
		y.aimAt(team, "a")
		y.settle()
		agent, _ = owner(team)
		require.Equal(t, "b", agent, "it has it still")
		y.line("b", true)
		y.settle()
		agent, _ = owner(team)
		require.Equal(t, "a", agent)
	})
}
