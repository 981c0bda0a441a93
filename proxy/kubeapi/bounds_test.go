package kubeapi

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequestsAreBoundedOfEachAgentAndCaller(t *testing.T) {
	b := newBounds()
	var ends []func()
	begin := func(agent, host string, n int) error {
		for range n {
			done, err := b.begin(caller{agent, host})
			if err != nil {
				return err
			}
			ends = append(ends, done)
		}
		return nil
	}
	require.NoError(t, begin("a", "one", MaxOfCaller))
	require.ErrorContains(t, begin("a", "one", 1), "of one to agent a")
	require.NoError(t, begin("b", "one", 1), "of another agent")
	for i := range MaxRequests - MaxOfCaller {
		require.NoError(t, begin("a", fmt.Sprint("host", i), 1))
	}
	require.ErrorContains(t, begin("a", "two", 1), "to agent a")
	require.Equal(t, MaxRequests+1, b.underWay())
	for _, end := range ends {
		end()
	}
	require.Zero(t, b.underWay())
	require.Empty(t, b.agents)
	require.Empty(t, b.callers)
	require.NoError(t, begin("a", "one", 1))
}
