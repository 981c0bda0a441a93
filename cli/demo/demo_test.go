package demo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStory(t *testing.T) {
	var steps []Step
	r, err := Run(t.Context(), Config{Agents: 2, Log: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)), Step: func(s Step) { steps = append(steps, s) }})
	require.NoError(t, err)
	require.Empty(t, r.Differences)
	require.Equal(t, 4+3+2, r.Objects)
	require.Len(t, steps, len(script()))
	heal := steps[len(steps)-1]
	require.LessOrEqual(t, heal.Messages.States, int64(12), "the edits made while apart arrive as one")
	require.Positive(t, heal.Messages.States)
}

// A store that lies to one agent's session is not found out by that session, and all the
// more by whoever reads the store itself.
func TestSabotageIsFound(t *testing.T) {
	for lie, want := range map[Lie]string{
		Drop:     "edge-1: Application/argocd/search is not there",
		Corrupt:  "edge-1: Application/search: spec: hub has ",
		Undelete: "edge-1: Application/argocd/shop is there, and should not be",
	} {
		t.Run(string(lie), func(t *testing.T) {
			r, err := Run(t.Context(), Config{Agents: 1, Lie: lie, Log: zap.NewNop(), Step: func(Step) {}})
			require.NoError(t, err)
			require.Contains(t, strings.Join(r.Differences, "\n"), want)
		})
	}
}
