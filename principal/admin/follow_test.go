package admin

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// TestFollowsWhatAgentsHave holds that without anybody asking it is known on both sides how much
// the other has, for how long what it has not has waited, and that of who is away nobody can say.
func TestFollowsWhatAgentsHave(t *testing.T) {
	within(t, agents{{Name: "one", Mode: resource.Autonomous}}, func(t *testing.T, r *rig) {
		store, stop := r.spoke("one", resource.Rules{Mode: resource.Autonomous})
		defer stop()
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.server.Follow(ctx) }()
		defer func() { end(); <-ended }()
		edit(store, app("argocd", "web"), resource.Spec, spec("v1"))
		settle()
		one, err := r.Agent(t.Context(), "one")
		require.NoError(t, err)
		require.Equal(t, Flow{Known: true, Whole: true}, one.Down)
		require.Equal(t, Flow{Known: true, Whole: true}, one.Up)

		r.net.Set("one", memlink.Weather{Line: memlink.Cut})
		settle()
		edit(r.hub, app("one", "web"), resource.Status, `{"health":{}}`) // undone, and nothing to say
		r.hub.Delete(app("one", "web"))                                  // made again, as another
		settle()
		<-time.After(time.Hour)
		synctest.Wait()
		one, err = r.Agent(t.Context(), "one")
		require.NoError(t, err)
		require.False(t, one.Up.Known)
		require.Nil(t, one.Spoke)
		r.net.Set("one", memlink.Weather{})
		settle()
		p, err := r.server.cfg.Principal.Agent("one")
		require.NoError(t, err)
		require.Zero(t, p.Session.Engine.Backlog, "it was asked, since it is back")
	})
}
