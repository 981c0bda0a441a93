package stack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
	"github.com/argocd-fabric/argocd-agent/principal/clusterinfo"
)

// testClusterInfo lets the CLI show what a principal says of its agents' clusters, also after
// Redis has lost it.
func testClusterInfo(t *testing.T, s *stack.Stack) {
	hub := s.Cluster("hub")
	require.NoError(t, hub.Apply(t.Context(), []byte(`apiVersion: v1
kind: Secret
metadata:
  name: cluster-edge-1
  namespace: argocd
  labels: {argocd.argoproj.io/secret-type: cluster}
stringData: {name: edge-1, server: "https://localhost:1?agentName=edge-1", config: "{}"}
`)))
	cache, err := clusterinfo.NewRedis(clusterinfo.RedisConfig{Address: hub.RedisAddress()})
	require.NoError(t, err)
	w, err := clusterinfo.New(clusterinfo.Config{Cache: cache, Every: time.Second, Log: zaptest.NewLogger(t)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}()

	info := clusterinfo.Info{
		Server: "https://localhost:1?agentName=edge-1", Connected: true, Since: time.Now(),
		Version: "1.34", APIs: 51, Resources: 1234, Applications: 7,
	}
	w.Set("edge-1", info)
	connected := shownCluster{Status: "Successful", Version: "1.34", APIs: 51, Resources: 1234, Applications: 7}
	stacktest.Eventually(t, shows(hub, connected))
	require.NoError(t, hub.Process(stack.Redis).Restart(t.Context())) // it keeps nothing on disk
	stacktest.Eventually(t, shows(hub, connected))

	info.Connected, info.Since = false, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w.Set("edge-1", info)
	away := connected
	away.Status, away.Message = "Failed", "agent edge-1 has been away since 2026-01-02T03:04:05Z"
	stacktest.Eventually(t, shows(hub, away))

	w.Forget("edge-1")
	stacktest.Eventually(t, shows(hub, shownCluster{}))
}

// A shownCluster is what the CLI shows of a cluster.
type shownCluster struct {
	Status, Message, Version      string
	APIs, Resources, Applications int64
}

// shows returns a check of what the CLI shows of cluster edge-1.
func shows(hub *stack.Cluster, want shownCluster) func(context.Context) error {
	return func(ctx context.Context) error {
		result, err := hub.ArgoCD(ctx, "cluster", "get", "edge-1", "--output", "json")
		if err != nil {
			return err
		}
		var shown struct {
			Info struct {
				ConnectionState   struct{ Status, Message string }
				ServerVersion     string
				CacheInfo         struct{ APIsCount, ResourcesCount int64 }
				ApplicationsCount int64
			}
		}
		if err := json.Unmarshal([]byte(result.Stdout), &shown); err != nil {
			return fmt.Errorf("exit code %d, %s%s: %w", result.Code, result.Stdout, result.Stderr, err)
		}
		i := shown.Info
		got := shownCluster{
			i.ConnectionState.Status, i.ConnectionState.Message, i.ServerVersion,
			i.CacheInfo.APIsCount, i.CacheInfo.ResourcesCount, i.ApplicationsCount,
		}
		if got != want {
			return fmt.Errorf("cluster edge-1 is shown as %+v, not %+v", got, want)
		}
		return nil
	}
}
