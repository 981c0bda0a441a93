package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// What the cluster says of itself is told over one stream: once, and again whenever it is
// something else.
func TestTellsOfItsCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memlink.New(memlink.Config{Keeps: true})
		h := net.Hub(presence())
		stopHub := background(t, h.Run)
		link, err := h.Link(t.Context(), "edge")
		require.NoError(t, err)
		var says atomic.Pointer[inquiry.Cluster]
		asked := atomic.Int64{}
		a, err := New(Config{
			Name: "edge", Namespace: "argocd", Dialer: net.Agent("edge", presence()), Store: memstore.New(memstore.Config{Name: "edge"}),
			Tick: time.Second, Log: zap.NewNop(),
			Cluster: func(context.Context) (inquiry.Cluster, error) {
				asked.Add(1)
				if c := says.Load(); c != nil {
					return *c, nil
				}
				return inquiry.Cluster{}, errors.New("it does not answer")
			},
		})
		require.NoError(t, err)
		stop := background(t, a.Run)
		settle()

		heard := make(chan inquiry.Cluster, 10)
		ended := make(chan error)
		go func() {
			ended <- inquiry.NewClient(dialer(link.Streams().Open)).Cluster(t.Context(), func(c inquiry.Cluster) error { heard <- c; return nil })
		}()
		passes := func(d time.Duration) (got []inquiry.Cluster) {
			<-time.After(d) // virtual
			synctest.Wait()
			for len(heard) > 0 {
				got = append(got, <-heard)
			}
			return got
		}
		require.Empty(t, passes(10*time.Minute), "nothing is known yet")
		old := inquiry.Cluster{Version: "1.34", APIs: []string{"v1"}, Kinds: 1}
		says.Store(&old)
		require.Equal(t, []inquiry.Cluster{old}, passes(time.Hour), "and nothing more while it stays so")
		says.Store(nil)
		require.Empty(t, passes(10*time.Minute), "what was known stays")
		newer := inquiry.Cluster{Version: "1.35", APIs: []string{"v1"}, Kinds: 1}
		says.Store(&newer)
		require.Equal(t, []inquiry.Cluster{newer}, passes(time.Hour))
		require.InDelta(t, (140*time.Minute)/clusterInterval, asked.Load(), 2)

		stop()
		<-ended // with or without an error: the agent is gone, and so may be the line
		require.NoError(t, link.Close())
		stopHub()
	})
}

// An agent without a cluster says that it will never tell.
func TestHasNoClusterToTellOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memlink.New(memlink.Config{Keeps: true})
		h := net.Hub(presence())
		stopHub := background(t, h.Run)
		link, err := h.Link(t.Context(), "edge")
		require.NoError(t, err)
		a, err := New(Config{
			Name: "edge", Namespace: "argocd", Dialer: net.Agent("edge", presence()), Store: memstore.New(memstore.Config{Name: "edge"}),
			Tick: time.Second, Log: zap.NewNop(),
		})
		require.NoError(t, err)
		stop := background(t, a.Run)
		settle()
		err = inquiry.NewClient(dialer(link.Streams().Open)).Cluster(t.Context(), func(inquiry.Cluster) error { return nil })
		require.ErrorIs(t, err, inquiry.ErrNoCluster)
		stop()
		require.NoError(t, link.Close())
		stopHub()
	})
}
