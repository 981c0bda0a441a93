package bench

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// TestChurn says nothing of how much memory was taken.
func TestChurn(t *testing.T) {
	c := Churn{
		Rate: 100, Duration: 4 * time.Second, Apps: 20, Seed: 1, Every: 500 * time.Millisecond,
		Agent: []string{os.Args[0], be}, Log: zap.NewNop(),
	}
	r, err := c.Run(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(r.Looks), 4)
	require.NotContains(t, r.Verdict, "NOT equal")
	last := r.Looks[len(r.Looks)-1]
	require.NotZero(t, last.Principal.Heap)
	require.NotZero(t, last.Agent.Heap)
	c.Rate = 0
	_, err = c.Run(t.Context())
	require.Error(t, err)
}

// looks returns looks at processes whose memory grows by so many bytes from one to the
// next.
func looks(n int, principal, agent uint64) (out []Look) {
	for i := range uint64(n) {
		out = append(out, Look{Principal: Footprint{Heap: 10<<20 + i*principal}, Agent: Footprint{Heap: 10<<20 + i*agent}})
	}
	return out
}

func TestGrowthIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		looks []Look
		equal bool
		ok    bool
		says  string
	}{
		"flat":            {looks(60, 0, 0), true, true, "memory is flat"},
		"a little":        {looks(60, 1<<10, 1<<10), true, true, "memory is flat"},
		"principal grows": {looks(60, 100<<10, 0), true, false, "memory GROWS"},
		"agent grows":     {looks(60, 0, 100<<10), true, false, "memory GROWS"},
		"unequal":         {looks(60, 0, 0), false, false, "NOT equal"},
	} {
		r := Churn{}.judge(c.looks, c.equal)
		require.Equal(t, c.ok, r.OK, name)
		require.Contains(t, r.Verdict, c.says, name)
	}
}
