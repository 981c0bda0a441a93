package mux

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fly sends full flights over a line that takes delay, and then one byte after the other at
// rate bytes a second, and returns how much is under way in the end.
func fly(t *testing.T, f *flight, flights int, delay time.Duration, rate int) uint64 {
	now := time.Unix(0, 0)
	for range flights {
		for f.room() > 0 {
			f.send(min(quantum, f.room()), now)
		}
		now = now.Add(delay + time.Duration(f.sent-f.arrived)*time.Second/time.Duration(rate))
		require.NoError(t, f.arrive(f.sent-takenEvery/2, now))
		require.NoError(t, f.arrive(f.sent, now))
	}
	return f.size
}

func TestFlight(t *testing.T) {
	for name, c := range map[string]struct {
		delay time.Duration
		rate  int
		size  uint64
	}{
		"fast line":      {time.Millisecond, 1 << 30, maxFlight},
		"far line":       {200 * time.Millisecond, 1 << 30, maxFlight},
		"slow line":      {20 * time.Millisecond, 1 << 20, 384 << 10},
		"very slow line": {20 * time.Millisecond, 64 << 10, 320 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			f := flight{size: firstFlight}
			require.LessOrEqual(t, fly(t, &f, 100, c.delay, c.rate), c.size)
			require.GreaterOrEqual(t, f.size, uint64(minFlight))
		})
	}
	f := flight{size: firstFlight}
	require.Equal(t, uint64(maxFlight), fly(t, &f, 100, time.Millisecond, 1<<30))
	require.Less(t, fly(t, &f, 20, time.Millisecond, 1<<20), uint64(maxFlight/2), "a line that has become slow")
	require.Equal(t, uint64(maxFlight), fly(t, &f, 100, time.Millisecond, 1<<30), "and fast again")
}
