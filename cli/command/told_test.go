package command

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// TestWhatAgentsTell holds that what an agent's process tells is known by one stream for as
// long as it is there, stays while it is away, and goes with the agent.
func TestWhatAgentsTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		presence := transport.Presence{Version: "test", Oldest: wire.Oldest, Newest: wire.Newest}
		lines := memlink.New(memlink.Config{Keeps: true})
		hub := lines.Hub(presence)
		background := func(run func(context.Context) error) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- run(ctx) }()
			return func() { cancel(); <-ended }
		}
		stopHub := background(hub.Run)
		link, err := hub.Link(t.Context(), "edge")
		require.NoError(t, err)
		streams := 0
		told := newTold(func(ctx context.Context, agent, service string) (net.Conn, error) {
			require.Equal(t, "edge", agent)
			streams++
			return link.Streams().Open(ctx, service)
		}, zap.NewNop())
		var hearing sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		looks := func(process string, connected bool) {
			for range 3 {
				told.listen(ctx, []principal.AgentStatus{{Name: "edge", Session: session.Status{
					Connected: connected, Peer: transport.Presence{Process: process},
				}}}, &hearing)
				<-time.After(10 * time.Second)
				synctest.Wait()
			}
		}
		run := func(version string) (stop func()) {
			a, err := agent.New(agent.Config{
				Name: "edge", Namespace: "argocd", Dialer: lines.Agent("edge", presence), Store: memstore.New(memstore.Config{Name: "edge"}),
				Tick: time.Second, Log: zap.NewNop(),
				Cluster: func(context.Context) (inquiry.Cluster, error) { return inquiry.Cluster{Version: version}, nil },
			})
			require.NoError(t, err)
			stop = background(a.Run)
			<-time.After(5 * time.Second) // until it is there
			synctest.Wait()
			return stop
		}

		looks("", false)
		require.Zero(t, streams, "nobody is there")
		stopAgent := run("1.34")
		looks("first", true)
		require.Equal(t, "1.34", told.of("edge").Version)
		require.Equal(t, 1, streams)
		stopAgent()
		looks("first", false)
		require.Equal(t, "1.34", told.of("edge").Version, "it was told last")
		stopAgent = run("1.35")
		looks("second", true)
		require.Equal(t, "1.35", told.of("edge").Version)
		require.Equal(t, 2, streams)
		told.listen(ctx, nil, &hearing)
		require.Empty(t, told.of("edge").Version)

		stop()
		stopAgent()
		hearing.Wait()
		require.NoError(t, link.Close())
		stopHub()
	})
}
