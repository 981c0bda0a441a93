package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// confirm tells a side what the other says to have had of its table.
func confirm(t *testing.T, of, by *side) {
	require.NoError(t, of.Confirm(t.Context(), by.Status().Engine.Has))
	synctest.Wait()
}

// TestWhatThePeerHas holds that it is known how much the peer is not known to have, and since
// when: what it has confirmed no more, what has changed since from then on.
func TestWhatThePeerHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		settle(time.Minute)
		require.Zero(t, r.hub.Status().Engine.Sure, "nobody has asked it")
		confirm(t, r.hub, r.spoke)
		require.NotZero(t, r.hub.Status().Engine.Sure)
		r.hub.set("web", resource.Spec, `"1"`)
		settle(10 * time.Second)
		require.Equal(t, 1, r.hub.Status().Engine.Backlog, "it is not known yet")
		require.Zero(t, r.spoke.Status().Engine.Lacks)
		confirm(t, r.hub, r.spoke)
		require.Zero(t, r.hub.Status().Engine.Backlog)
		require.Zero(t, r.hub.Status().Engine.Oldest)

		r.net.Set(agentName, memlink.Weather{Line: memlink.Cut})
		settle(time.Minute)
		first := time.Now()
		r.hub.set("web", resource.Spec, `"2"`)
		settle(time.Hour)
		r.hub.set("db", resource.Spec, `"1"`)
		r.hub.set("web", resource.Spec, `"3"`)
		settle(time.Minute)
		confirm(t, r.hub, r.spoke)
		st := r.hub.Status().Engine
		require.Equal(t, 2, st.Backlog)
		require.True(t, st.Oldest.Equal(first), "%v is not %v", st.Oldest, first)

		had := r.spoke.Status().Engine.Has
		r.net.Set(agentName, memlink.Weather{})
		settle(time.Minute)
		require.NoError(t, r.hub.Confirm(t.Context(), had), "a word that is old by now")
		require.Equal(t, 2, r.hub.Status().Engine.Backlog)
		now := r.spoke.Status().Engine.Has
		r.hub.set("late", resource.Spec, `"1"`)
		settle(10 * time.Second)
		require.NoError(t, r.hub.Confirm(t.Context(), now))
		require.Equal(t, 1, r.hub.Status().Engine.Backlog, "all but what came after it")
	})
}

// TestGoneRowsAreOwed holds that a deletion of which nothing is left to know but that the peer
// has not heard of it counts.
func TestGoneRowsAreOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hub.set("web", resource.Spec, `"1"`)
		r.start()
		settle(time.Minute)
		confirm(t, r.hub, r.spoke)
		r.net.Set(agentName, memlink.Weather{Line: memlink.Cut})
		settle(time.Minute)
		r.hub.cluster.Delete(app("web"))
		settle(time.Hour)
		confirm(t, r.hub, r.spoke)
		st := r.hub.Status().Engine
		require.Equal(t, 1, st.Backlog)
		require.InDelta(t, time.Hour.Seconds(), time.Since(st.Oldest).Seconds(), 5)
		r.net.Set(agentName, memlink.Weather{})
		settle(time.Minute)
		confirm(t, r.hub, r.spoke)
		require.Zero(t, r.hub.Status().Engine.Backlog)
	})
}

// TestCounts holds that what has happened is counted, each on the side where it has.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var paces session.Paces
		r.spoke.tune = func(c *session.Config) { c.Paces = &paces }
		r.start()
		settle(time.Minute)
		r.hub.set("web", resource.Spec, `"1"`) // of what was there before it is not known when it was seen
		settle(time.Minute)
		hub, spoke := r.hub.Status().Counts, r.spoke.Status().Counts
		require.NotZero(t, spoke.Received)
		require.NotZero(t, spoke.ReceivedBytes)
		require.LessOrEqual(t, spoke.Received, hub.Sent, "the last value of a key may be all that arrives")
		require.LessOrEqual(t, spoke.ReceivedBytes, hub.SentBytes)
		require.EqualValues(t, 1, spoke.Done)
		require.EqualValues(t, 1, spoke.Met)
		count, _, upTo := paces.Write.Sizes()
		require.EqualValues(t, 1, count)
		require.EqualValues(t, 1, upTo[.001], "no time passes in a bubble but by waiting")

		r.net.Set(agentName, memlink.Weather{Line: memlink.Cut})
		settle(time.Minute)
		r.net.Set(agentName, memlink.Weather{})
		settle(time.Minute)
		require.EqualValues(t, 2, r.spoke.Status().Counts.Met)
	})
}
