package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

// be is the argument by which this test binary is another process.
const be = "be-the-agent"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) != 2 || os.Args[1] != be:
		goleak.VerifyTestMain(m)
	default:
		if err := RunAgent(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func small() SlowBackend {
	return SlowBackend{
		Delay: 20 * time.Millisecond, Rate: 100, Duration: 3 * time.Second, Apps: 20, Seed: 1, Runs: 1,
		Agent: []string{os.Args[0], be}, Log: zap.NewNop(),
	}
}

// TestSlowBackend says nothing of how long anything took.
func TestSlowBackend(t *testing.T) {
	r, err := small().Run(t.Context())
	require.NoError(t, err)
	require.Len(t, r.Runs, 1)
	run := r.Runs[0]
	require.Zero(t, run.Lost)
	require.Zero(t, run.Repeated)
	require.Zero(t, run.Reordered)
	require.Equal(t, run.Unique, run.Received, "on a good network nothing is sent twice")
	require.Equal(t, 300, run.Steady.Offered)
	require.Equal(t, 1000, run.Overload.Offered)
	for _, p := range []Phase{run.Steady, run.Overload} {
		require.LessOrEqual(t, p.Written, p.Offered)
		require.GreaterOrEqual(t, p.Written, 20, "each Application's last change at least")
		require.GreaterOrEqual(t, p.P50, 20.0, "no write is faster than the delay")
	}
	require.Less(t, run.Overload.Written, run.Overload.Offered, "what is late is replaced by what is newer")
}

func TestAnAgentThatEndsIsAnError(t *testing.T) {
	c := small()
	c.Agent = []string{"sh", "-c", "echo it is broken >&2; exit 3"}
	_, err := c.Run(t.Context())
	require.ErrorContains(t, err, "it is broken")
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	c := small()
	c.Duration = time.Hour
	_, err := c.Run(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestConfigIsChecked(t *testing.T) {
	for _, spoil := range []func(*SlowBackend){
		func(c *SlowBackend) { c.Delay = -1 },
		func(c *SlowBackend) { c.Rate = 0 },
		func(c *SlowBackend) { c.Duration = 0 },
		func(c *SlowBackend) { c.Apps = 0 },
		func(c *SlowBackend) { c.Runs = 0 },
		func(c *SlowBackend) { c.Agent = nil },
		func(c *SlowBackend) { c.Log = nil },
	} {
		c := small()
		spoil(&c)
		_, err := c.Run(t.Context())
		require.Error(t, err)
	}
}
