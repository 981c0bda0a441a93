package real

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A shownCluster is what argocd cluster list says of a cluster.
type shownCluster struct {
	Name            string
	ConnectionState struct{ Status, Message string }
	Info            struct{ ApplicationsCount int64 }
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
			if c.Info.ApplicationsCount == 0 {
				return fmt.Errorf("%s is shown without its Applications", name)
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
		return nil
	}))
	require.NoError(t, w.shows("edge-2", shownAs("Successful"))(t.Context()))
	require.NoError(t, left.Start(t.Context()))
	within(t, time.Minute, w.shows("edge-1", shownAs("Successful")))
}
