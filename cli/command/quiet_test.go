package command

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestQuietSaysOnceWhatRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.InfoLevel)
		log := quiet(zap.New(core), map[string]string{"refused": "ask again"}).With(zap.String("agent", "edge-1"))
		for i := range 100 {
			log.Error(fmt.Sprintf("attempt %d: connection refused", i))
			log.Debug("attempt")
		}
		log.Error("connection reset")
		require.Len(t, logged.All(), 2)
		require.Equal(t, map[string]any{"agent": "edge-1", "advice": "ask again"}, logged.All()[0].ContextMap())
		require.Equal(t, map[string]any{"agent": "edge-1"}, logged.All()[1].ContextMap())

		<-time.After(quietFor)
		log.Error("attempt 100: connection refused")
		require.Len(t, logged.All(), 3, "it is said again after a while")

		for i := range 2 * quietEntries {
			log.Info("line " + string(rune('α'+i)))
		}
		require.Len(t, logged.All(), 3+2*quietEntries, "what is remembered is bounded, not what is said")
	})
}

func TestQuietTellsAgentsAndReasonsApart(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	log := quiet(zap.New(core), nil)
	for port := range 3 {
		for _, agent := range []string{"edge-1", "edge-2"} {
			for _, reason := range []string{"not registered", "blocked"} {
				from := fmt.Sprint("127.0.0.1:", port)
				log.Warn("refused", zap.String("agent", agent), zap.String("from", from), zap.Error(errors.New(reason)))
			}
			log.With(zap.String("agent", agent)).Warn("cannot follow", zap.Int("failures", port))
		}
	}
	require.Equal(t, 4, logged.FilterMessage("refused").Len())
	require.Equal(t, 2, logged.FilterMessage("cannot follow").Len())
}
