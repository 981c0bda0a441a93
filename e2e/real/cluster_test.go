package real

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// A shownCluster is what argocd cluster list says of a cluster.
type shownCluster struct {
	Name            string
	ConnectionState struct{ Status, Message string }
	Info            struct {
		ApplicationsCount int64
		ServerVersion     string
		CacheInfo         struct{ APIsCount int64 }
		APIVersions       []string
	}
}

// shows returns a check of what Argo CD's own CLI shows of an agent's cluster.
func (w *world) shows(agent string, check func(shownCluster) error) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := w.hub.ArgoCD(ctx, "cluster", "list", "-o", "json")
		if err != nil || r.Code != 0 {
			return fmt.Errorf("argocd cluster list: %d, %w: %s", r.Code, err, r.Stderr)
		}
		var clusters []shownCluster
		if err := json.Unmarshal([]byte(r.Stdout), &clusters); err != nil {
			return err
		}
		for _, c := range clusters {
			if c.Name == agent {
				return check(c)
			}
		}
		return fmt.Errorf("%s is not among %d clusters", agent, len(clusters))
	}
}

func shownAs(want string) func(shownCluster) error {
	return func(c shownCluster) error {
		if c.ConnectionState.Status != want {
			return fmt.Errorf("%s is shown as %+v", c.Name, c.ConnectionState)
		}
		return nil
	}
}

// clustersShown has agents leave and come back, and the hub's Redis lose what it held.
func clustersShown(t *testing.T, w *world) {
	for name, a := range w.agents {
		w.newShip(t, a, "shown")
		within(t, time.Minute, w.shows(name, func(c shownCluster) error {
			if c.Info.ApplicationsCount == 0 || c.Info.CacheInfo.APIsCount < 30 || !slices.Contains(c.Info.APIVersions, "apps/v1/Deployment") {
				return fmt.Errorf("%s is shown without its Applications or APIs: %+v", name, c)
			}
			if version := serverVersion(t, a.spoke.Cluster); c.Info.ServerVersion != version {
				return fmt.Errorf("%s is shown as of version %q, not %q", name, c.Info.ServerVersion, version)
			}
			return shownAs("Successful")(c)
		}))
	}
	left := w.agents["edge-1"]
	left.stop(t)
	within(t, time.Minute, w.shows("edge-1", func(c shownCluster) error {
		if err := shownAs("Failed")(c); err != nil {
			return err
		}
		require.Contains(t, c.ConnectionState.Message, "agent edge-1 has been away since")
		require.NotEmpty(t, c.Info.ServerVersion, "it is what was told last")
		return nil
	}))
	require.NoError(t, w.shows("edge-2", shownAs("Successful"))(t.Context()))
	told := w.staleShown(t, left)
	w.principal.stop(t)
	require.NoError(t, w.principal.Start(t.Context()))
	time.Sleep(18 * time.Second) // in which it has come to know that the agent is away
	require.Equal(t, told, w.staleShown(t, left), "said once, whoever is restarted")
	require.NoError(t, left.Start(t.Context()))
	within(t, time.Minute, w.shows("edge-1", shownAs("Successful")))
	for name := range told {
		within(t, patience, left.hub.is(name, pending("")))
	}
}

// staleShown returns what the hub's Applications of an agent that is away are, each of which
// says that; those of no other agent do.
func (w *world) staleShown(t *testing.T, away *agent) (versions map[string]string) {
	t.Helper()
	versions = map[string]string{}
	for _, a := range w.agents {
		all, err := a.hub.all(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, all)
		for name := range all {
			if a != away {
				require.NoError(t, a.hub.is(name, pending(""))(t.Context()))
				continue
			}
			within(t, patience, a.hub.is(name, pending("agent "+a.name+" has not been heard of since 20")))
			versions[name] = a.hub.get(t, name).GetResourceVersion()
		}
	}
	return versions
}

// serverVersion returns the version of a cluster as Argo CD has it.
func serverVersion(t *testing.T, c *stack.Cluster) string {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	require.NoError(t, err)
	v, err := client.Discovery().ServerVersion()
	require.NoError(t, err)
	return v.Major + "." + v.Minor
}
