package kubestore

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	"k8s.io/client-go/rest"
)

// TestServed asks a real API server what it is, as somebody who has no rights.
func TestServed(t *testing.T) {
	c := startCluster(t)
	cfg := c.RESTConfig()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "nobody", Groups: []string{"system:authenticated"}}
	h, err := NewHome(HomeConfig{REST: cfg, Namespace: c.namespace(), Log: zaptest.NewLogger(t)})
	require.NoError(t, err)
	s, err := h.Served(t.Context())
	require.NoError(t, err)
	require.Regexp(t, `^1\.\d+$`, s.Version)
	require.Subset(t, s.APIs, []string{"v1", "v1/ConfigMap", "apps/v1", "apps/v1/Deployment", "argoproj.io/v1alpha1/Application"})
	require.NotContains(t, s.APIs, "authorization.k8s.io/v1/SubjectAccessReview", "it cannot be observed")
	require.True(t, slices.IsSorted(s.APIs))
	require.Greater(t, s.Kinds, 30)
	require.Less(t, s.Kinds, len(s.APIs))
}
