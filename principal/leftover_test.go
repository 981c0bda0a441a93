package principal

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// Agents that were removed while no principal ran are forgotten by the next one, but only
// by the hub that kept something for them, and if it knows of any agent.
func TestAgentsThatLeftWhileNoPrincipalRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "letters.db")
		net := memlink.New(memlink.Config{Keeps: true})
		// serve has a principal serve a set for a minute, and returns what is kept then.
		serve := func(identity string, names ...string) (kept []string) {
			letters, err := ledger.Open(file)
			require.NoError(t, err)
			hub := net.Hub(presence())
			agents := make(roll)
			p, err := New(Config{
				Identity: identity, Namespace: "argocd", Hub: hub, Store: memstore.New(memstore.Config{}), Registry: agents, Ledger: letters, Tick: time.Second, Log: zap.NewNop(),
			})
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			var set []backend.Agent
			for _, name := range names {
				set = append(set, backend.Agent{Name: name})
			}
			agents <- set
			<-time.After(time.Minute)
			kept, err = hub.Kept(t.Context())
			require.NoError(t, err)
			stop()
			require.ErrorIs(t, <-ended, context.Canceled)
			require.NoError(t, letters.Close())
			return kept
		}
		all := []string{"one", "three", "two"}
		require.Equal(t, all, serve("hub-1", all...))
		require.Equal(t, all, serve("hub-1"), "it knows of no agent: it may look in the wrong place")
		require.Equal(t, all, serve("hub-2", "one"), "another hub's")
		require.Equal(t, all, serve("hub-1", "one"), "that hub has been another meanwhile")
		require.Equal(t, []string{"one"}, serve("hub-1", "one"))
	})
}
