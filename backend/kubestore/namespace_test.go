package kubestore

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestANamespaceIsMadeWhereThatIsAsked: elsewhere the object waits for it, and is told what to
// do; both are errors that may go away.
func TestANamespaceIsMadeWhereThatIsAsked(t *testing.T) {
	c := startCluster(t)
	home := c.namespace()
	for _, makes := range []bool{false, true} {
		s, _ := c.store(t, func(cfg *Config) {
			cfg.Side, cfg.Home, cfg.Kinds, cfg.MakeNamespaces = resource.Agent, home, []resource.Kind{resource.Application}, makes
		})
		missing := home + "-team"
		want := app(missing, "web")
		want.Parts[resource.Spec] = spec
		want.Origin = resource.Origin{UID: "u", By: "hub"}
		stored, err := s.Write(t.Context(), want)
		if makes {
			require.NoError(t, err)
			require.NotEmpty(t, stored.UID)
			_, err = c.Dynamic().Resource(namespaces).Get(t.Context(), missing, metav1.GetOptions{})
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "there is no namespace "+missing+" here: make it, or have the agent make it (--create-namespace)")
		require.NotErrorIs(t, err, backend.ErrRefused)
		require.NotErrorIs(t, err, backend.ErrConflict)
		_, err = c.Dynamic().Resource(namespaces).Get(t.Context(), missing, metav1.GetOptions{})
		require.Error(t, err)
	}
}
