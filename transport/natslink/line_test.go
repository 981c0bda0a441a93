package natslink

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLineIsUselessIfItCarriesNothing(t *testing.T) {
	const heartbeat = 8 * time.Second
	var l line
	never := time.Unix(0, 0)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }

	require.False(t, l.look(false, 0, never, at(0)))
	require.False(t, l.useless(heartbeat, at(1000)), "there is none")

	require.True(t, l.look(false, 7, never, at(0)), "connected")
	require.False(t, l.useless(heartbeat, at(23)))
	require.True(t, l.useless(heartbeat, at(24)))

	require.True(t, l.look(true, 8, never, at(25)), "the next has twice the time")
	require.False(t, l.useless(heartbeat, at(72)))
	require.True(t, l.useless(heartbeat, at(73)))

	require.True(t, l.look(true, 9, never, at(80)))
	require.False(t, l.look(true, 9, at(81), at(82)), "an ask that was answered is no change")
	require.False(t, l.useless(heartbeat, at(104)))
	require.True(t, l.useless(heartbeat, at(105)), "three heartbeats after an ask that was not")

	require.True(t, l.look(true, 10, at(81), at(110)), "what was asked on an earlier connection does not count")
	require.False(t, l.useless(heartbeat, at(157)))
	require.True(t, l.useless(heartbeat, at(158)))
	require.True(t, l.look(false, 10, at(81), at(158)), "nobody listens")

	for i := range 20 {
		require.True(t, l.useless(heartbeat, at(1000+300*i)), "patience is bounded")
	}
}

// An ask is lost with the process that it was said to, and with the connection, and not because the peer
// is away for a while or there for the first time.
func TestBearing(t *testing.T) {
	var b bearing
	for _, step := range []struct {
		end     string
		remade  uint64
		changed bool
	}{{"", 0, false}, {"one", 0, false}, {"", 0, false}, {"one", 0, false}, {"one", 1, true}, {"one", 1, false}, {"", 1, false}, {"two", 1, true}, {"two", 1, false}, {"three", 2, true}} {
		require.Equal(t, step.changed, b.look(step.end, step.remade), "%+v", step)
	}
}
