package natslink

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

func TestSuspicion(t *testing.T) {
	began := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	s := suspicion{watch: watch{after: 2 * time.Minute, most: 8 * time.Minute}, since: began}
	var acted []int
	act := func(heard func(minute int) time.Time, from, to int) {
		for m := from; m < to; m++ {
			if s.due(at(m), heard(m)) {
				s.acted(at(m))
				acted = append(acted, m)
			}
		}
	}
	never := func(int) time.Time { return time.Time{} }
	act(never, 0, 40)
	require.Equal(t, []int{3, 8, 17, 26, 35}, acted, "later and later, and then no later")

	acted = nil
	act(func(m int) time.Time { return at(m) }, 40, 60)
	require.Empty(t, acted, "the principal is there")
	act(func(int) time.Time { return at(59) }, 60, 68)
	require.Equal(t, []int{62, 67}, acted, "another time begins anew")
}

// TestLeafThatDoesNotComeBackIsRestarted: its principal can be reached, and is not heard. What
// is lasting stays, and it is with the principal again when that lets it.
func TestLeafThatDoesNotComeBackIsRestarted(t *testing.T) {
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	line, err := netfault.Listen(func() string { return addr(t, h) })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, line.Close()) })
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	c := leafConfig(t, p, "north", line.Addr())
	log, lines := refusals()
	c.Logger, c.watch = log, watch{after: 5 * time.Second, most: time.Minute, every: 100 * time.Millisecond}
	agent := dial(t, c)
	awaitEvent(t, agent, transport.Up)

	line.Set(netfault.Cut) // each connection is taken, and ends
	awaitEvent(t, agent, transport.Down)
	awaitLine(t, lines, "restarting the NATS server", unheard)
	awaitLine(t, lines, "the NATS server runs again")
	require.NoError(t, agent.Send(t.Context(), value("key", "apart")))
	line.Set(netfault.Healthy)
	awaitEvent(t, agent, transport.Up)
	await(t, hub, isValue("key", "apart"))
}

// TestWatchdogKnowsWhetherThePrincipalCanBeReached: if not, the fault is elsewhere.
func TestWatchdogKnowsWhetherThePrincipalCanBeReached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := newWatchdog(LeafConfig{Connect: l.Addr().String()}, nil)
	defer w.stop()
	require.True(t, w.reachable())
	require.NoError(t, l.Close())
	require.False(t, w.reachable())
}
