package command

import (
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
