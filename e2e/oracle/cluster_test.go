package oracle

import (
	"encoding/json"
	"testing"

	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"github.com/stretchr/testify/require"
)

// TestArgoCDReadsHowAClusterIsReached: the field config of a cluster secret, as the tests of
// kubestore have it, is what Argo CD takes for a token and a CA, and would write itself.
func TestArgoCDReadsHowAClusterIsReached(t *testing.T) {
	var read v1alpha1.ClusterConfig
	require.NoError(t, json.Unmarshal([]byte(`{"bearerToken":"a.b.c","tlsClientConfig":{"caData":"UEVN"}}`), &read))
	require.Equal(t, v1alpha1.ClusterConfig{BearerToken: "a.b.c", TLSClientConfig: v1alpha1.TLSClientConfig{CAData: []byte("PEM")}}, read)
	c := v1alpha1.Cluster{Server: "https://proxy:9090?agentName=edge-1", Config: read}
	reach, err := c.RawRestConfig()
	require.NoError(t, err)
	require.Equal(t, "a.b.c", reach.BearerToken)
	require.Equal(t, []byte("PEM"), reach.CAData)
	require.False(t, reach.Insecure)
	require.JSONEq(t, `{"bearerToken":"a.b.c","tlsClientConfig":{"insecure":false,"caData":"UEVN"}}`, string(encoded(t, read)))
}
