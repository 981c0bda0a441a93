package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// TestChurn says nothing of how much memory was taken.
func TestChurn(t *testing.T) {
	s := small()
	s.Agents = 1
	c, err := in(t.Context(), s, fleet.Order{}, func(w *world) (c churned, err error) {
		if c.looks, err = w.churn(100 * time.Millisecond); err == nil {
			c.equal, err = w.calm()
		}
		return c, err
	})
	require.NoError(t, err)
	require.True(t, c.equal)
	require.GreaterOrEqual(t, len(c.looks), 2)
	last := c.looks[len(c.looks)-1]
	require.NotZero(t, last.Principal.Heap)
	require.NotZero(t, last.Agent.Own)
}

// looks returns looks at processes whose memory grows by so many bytes from one to the
// next.
func looks(n int, principal, agent uint64) (out []Look) {
	for i := range uint64(n) {
		out = append(out, Look{Principal: fleet.Footprint{Heap: 10<<20 + i*principal}, Agent: fleet.Footprint{Heap: 10<<20 + i*agent}})
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
		r := churned{c.looks, c.equal}.judge()
		require.Equal(t, c.ok, r.OK, name)
		require.Contains(t, r.Verdict, c.says, name)
	}
}
