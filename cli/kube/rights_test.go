package kube

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/deploy"
)

func TestRightsAreThoseOfTheManifests(t *testing.T) {
	rights, err := Rights("gitops", deploy.Principal(), deploy.PrincipalOfAutonomous())
	require.NoError(t, err)
	require.Contains(t, rights, Right{"", "argoproj.io", "applications", "", "list"})
	require.Contains(t, rights, Right{"", "argoproj.io", "applications", "", "delete"})
	require.Contains(t, rights, Right{"gitops", "", "secrets", "argocd-agent-ca", "get"})
	require.NotContains(t, rights, Right{"gitops", "", "secrets", "", "delete"})
	require.Equal(t, "get secrets/argocd-agent-ca in gitops", Right{"gitops", "", "secrets", "argocd-agent-ca", "get"}.String())
	require.Equal(t, "list applications.argoproj.io in all namespaces", Right{"", "argoproj.io", "applications", "", "list"}.String())

	for _, text := range [][]byte{deploy.PrincipalRegistering(), deploy.Managed(), deploy.Autonomous(), deploy.Destination(), deploy.CreateNamespace(),
		deploy.Live(), deploy.LiveWrite(), deploy.LiveExec(), deploy.LiveSecrets()} {
		rights, err := Rights("gitops", text)
		require.NoError(t, err)
		require.NotEmpty(t, rights)
	}
	_, err = Rights("gitops", []byte("kind: [\n"))
	require.Error(t, err)
}
