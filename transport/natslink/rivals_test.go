package natslink

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

func TestRivals(t *testing.T) {
	var r rivals
	now := time.Now()
	hears := func(process string) time.Duration {
		now = now.Add(time.Second)
		return r.hears(process, now)
	}
	for _, process := range []string{"a", "a", "b", "c", "d"} {
		require.Zero(t, hears(process), "a process that was restarted has no rival")
	}
	require.Zero(t, hears("c"), "it may be by accident")
	require.Equal(t, minRivalPause, hears("d"))
	require.Zero(t, hears("d"))
	require.Equal(t, 2*minRivalPause, hears("c"))
	for range 10 {
		hears("d")
		hears("c")
	}
	require.Equal(t, maxRivalPause, hears("d"))
	now = now.Add(rivalry + time.Minute)
	require.Zero(t, hears("c"))
	require.Zero(t, hears("d"), "it is forgotten")
}

// TestTwoAgentsOfOneName: they do not take turns for ever. The log names both.
func TestTwoAgentsOfOneName(t *testing.T) {
	p := tlstest.NewAuthority(t)
	c := hubConfig(t, p)
	log, lines := refusals()
	c.Logger = log
	h, _ := startHub(t, c)
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	first := dial(t, leafConfig(t, p, "north", addr(t, h)))
	awaitEvent(t, first, transport.Up)
	leaf, err := NewLeaf(leafConfig(t, p, "north", addr(t, h)))
	require.NoError(t, err)
	second, err := leaf.Dial(t.Context())
	require.NoError(t, err)
	awaitLine(t, lines, "two agents use one name", "north", `"from":"127.0.0.1:`, `"other":"127.0.0.1:`)
	awaitLine(t, lines, "refused a connection", "north", "another agent of that name is connected from 127.0.0.1:")
	require.NoError(t, second.Close())
	require.NoError(t, first.Send(t.Context(), value("key", "of the first")))
	await(t, hub, isValue("key", "of the first"))
}
