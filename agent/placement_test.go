package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

func TestPlacement(t *testing.T) {
	one := Placement{Namespace: "argocd"}
	many := Placement{Namespace: "argocd", Destination: true, Allowed: []string{"team-?", "/^shop-\\d+$/"}}
	project := resource.Key{Kind: resource.Project, Namespace: "team-a", Name: "p"}
	for name, c := range map[string]struct {
		place      Placement
		link, here resource.Key
		forbidden  string
	}{
		"its own":                      {one, app("", "web"), app("argocd", "web"), ""},
		"its own, by destination":      {many, app("", "web"), app("argocd", "web"), ""},
		"another":                      {one, app("team-a", "web"), app("team-a", "web"), "this agent keeps its Applications in one namespace: start it with --destination-based-mapping, as the principal was"},
		"another, by destination":      {many, app("team-a", "web"), app("team-a", "web"), ""},
		"by a regular expression":      {many, app("shop-12", "web"), app("shop-12", "web"), ""},
		"one that is not allowed":      {many, app("kube-system", "web"), app("kube-system", "web"), "namespace kube-system is not among the agent's --allowed-namespaces"},
		"its own under its local name": {many, app("argocd", "web"), app("argocd", "web"), "namespace argocd is the agent's own here: the Applications in it are those of the principal's"},
		"a project beside it":          {many, project, project, "only Applications may be in namespace team-a"},
	} {
		t.Run(name, func(t *testing.T) {
			here, forbidden := c.place.In(c.link)
			require.Equal(t, c.here, here)
			require.Equal(t, c.forbidden, forbidden)
			if c.forbidden == "" {
				back, ok := c.place.Out(resource.Object{Key: here})
				require.True(t, ok)
				require.Equal(t, c.link, back.Key)
			}
			cluster := memstore.New(memstore.Config{})
			_, err := c.place.view(cluster, func() {}).Write(t.Context(), resource.Object{Key: c.link})
			if c.forbidden == "" {
				require.NoError(t, err)
				require.Contains(t, cluster.All(), c.here)
				return
			}
			require.ErrorIs(t, err, backend.ErrRefused)
			require.ErrorContains(t, err, c.forbidden)
			require.Empty(t, cluster.All())
		})
	}
	require.Equal(t, []string{"argocd"}, one.Namespaces())
	require.Empty(t, many.Namespaces())
	require.Equal(t, []string{"argocd"}, Placement{Namespace: "argocd", Destination: true}.Namespaces(), "no other is watched unless it is allowed")
	_, ok := many.Out(resource.Object{Key: app("kube-system", "web")})
	require.False(t, ok)
}

// A copy in a namespace that the agent has ceased to take is not changed any more, nor is it
// hidden: the principal is told of it, and why it stays as it is.
func TestNamespaceIsTakenNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memlink.New(memlink.Config{Keeps: true})
		cluster := memstore.New(memstore.Config{Name: "edge"})
		run := func(allowed ...string) (stop func()) {
			a, err := New(Config{
				Name: "edge", Namespace: "argocd", Dialer: net.Agent("edge", presence()), Store: cluster,
				Destination: true, Allowed: allowed, Tick: time.Second, Log: zap.NewNop(),
			})
			require.NoError(t, err)
			return background(t, a.Run)
		}
		principal, stopHub := hub(t, net)
		defer stopHub()
		web := app("team-a", "web")
		edit(principal, web, resource.Spec, `{"n":1}`)
		edit(cluster, app("team-a", "other"), resource.Spec, `{"n":0}`)
		stop := run("team-*")
		settle()
		stop()
		stop = run("team-b")
		defer func() { stop() }()
		edit(principal, web, resource.Spec, `{"n":2}`)
		edit(cluster, web, resource.Status, `{"sync":{"status":"Synced"}}`)
		settle()
		copied, _ := cluster.Get(web)
		require.Equal(t, `{"n":1}`, copied.Parts[resource.Spec])
		original, _ := principal.Get(web)
		require.Contains(t, original.Parts[resource.Fault], "namespace team-a is not among the agent's --allowed-namespaces")
		require.Contains(t, original.Parts[resource.Status], "Synced")
		principal.Delete(web)
		settle()
		_, ok := cluster.Get(web)
		require.True(t, ok, "it may not be removed")
		stop()
		stop = run("team-*")
		settle()
		_, ok = cluster.Get(web)
		require.False(t, ok)
		require.Contains(t, cluster.All(), app("team-a", "other"))
	})
}

func TestDestinationMappingIsForManagedAgents(t *testing.T) {
	_, err := New(Config{
		Name: "edge", Namespace: "argocd", Dialer: memlink.New(memlink.Config{}).Agent("edge", presence()), Store: memstore.New(memstore.Config{}),
		Rules: resource.Rules{Mode: resource.Autonomous}, Destination: true, Tick: 1, Log: zap.NewNop(),
	})
	require.ErrorContains(t, err, "managed")
}
