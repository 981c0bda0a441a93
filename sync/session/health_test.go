package session

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/transport"
)

func TestHealthTellsTheLogOncePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zapcore.InfoLevel)
		h := newHealth(zap.New(core))
		first, second := errors.New("first"), errors.New("second")

		h.note("send", "a", nil)
		require.Zero(t, log.Len())
		h.note("send", "a", first)
		h.note("send", "a", first)
		time.Sleep(time.Second)
		h.note("send", "b", second)
		require.Equal(t, 1, log.FilterMessage("session fails, and tries again").Len())
		require.Equal(t, second, h.status().Err)
		h.note("send", "b", nil)
		h.note("send", "c", nil)
		require.Equal(t, first, h.status().Err, "a success with one object is no success with another")
		require.Equal(t, 1, log.Len())
		h.note("send", "a", nil)
		require.NoError(t, h.status().Err)
		require.Equal(t, 1, log.FilterMessage("session succeeds again").Len())
		h.note("send", "a", first)
		require.Equal(t, 3, log.Len())
	})
}

func TestHealthKnowsWhoIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zapcore.InfoLevel)
		h := newHealth(zap.New(core))
		require.Equal(t, Status{}, h.status())

		p := transport.Presence{Process: "p1", Version: "v1", Oldest: 1, Newest: 1}
		h.up(p, nil)
		st := h.status()
		require.True(t, st.Connected)
		require.Equal(t, p, st.Peer)
		require.Equal(t, time.Now(), st.Since)
		time.Sleep(time.Minute)
		h.down()
		st = h.status()
		require.False(t, st.Connected)
		require.Equal(t, p, st.Peer, "who was there last")
		require.Equal(t, time.Now(), st.Since)

		refusal := errors.New("upgrade the agent")
		for range 3 {
			h.up(p, refusal)
			require.Equal(t, refusal, h.status().Err)
			h.down()
		}
		require.Equal(t, 1, log.FilterMessage("peer is refused").Len(), "one line is enough")
		h.up(p, nil)
		require.NoError(t, h.status().Err)
	})
}
