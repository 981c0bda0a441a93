package natslink

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// An agent that goes is no error of the principal's, whatever the server was about to write.
func TestWhatTheServerComplainsOf(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	l := serverLogger{zap.New(core), nil, func() {}, nobody}
	l.Errorf("127.0.0.1:44018 - lid:23 - Error flushing: %v", errors.New("write: broken pipe"))
	l.Noticef("Starting")
	l.Warnf("%s for some reason", unverified)
	require.Zero(t, logged.Len())
	l.Warnf("Filestore state is outdated")
	l.Errorf("JetStream failed to store: %v", errors.New("no space left"))
	require.Equal(t, []string{"info Filestore state is outdated", "error JetStream failed to store: no space left"}, said(logged))
}

// said returns the lines of a log, each with its level.
func said(logged *observer.ObservedLogs) (lines []string) {
	for _, e := range logged.All() {
		lines = append(lines, e.Level.String()+" "+e.Message)
	}
	return lines
}
