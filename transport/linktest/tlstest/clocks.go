package tlstest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

const invalid = "certificate has expired or is not yet valid: current time 20"

// wrongClocks: an agent whose clock is late, or early, has a certificate that the hub does not
// take. The hub says so, with both times, and the agent that it was told so.
func wrongClocks(w *world) {
	for agent, c := range map[string]struct {
		wrong time.Duration
		is    string
	}{"north": {-2 * time.Hour, " is after 20"}, "south": {2 * time.Hour, " is before 20"}} {
		clock := time.Now().Add(c.wrong)
		pair, err := w.ca.IssueAgent(agent, pki.Options{Now: clock, Lifetime: time.Hour})
		require.NoError(w, err)
		own, err := identity.NewCredentials(Bundle(pair, w.ca), clock)
		require.NoError(w, err)
		log, says := w.hear()
		w.dial(agent, w.address, End{Own: own, Heartbeat: heartbeat, Log: log})
		w.says("the hub", w.logged, w.lines, invalid, c.is)
		if !w.Mute {
			says("remote error: tls: expired certificate")
		}
	}
}

// wrongHubsClock: it is the hub's. The agent says so, with both times.
func wrongHubsClock(w *world) {
	clock := time.Now().Add(-2 * time.Hour)
	pair, err := w.ca.IssueServer("principal", []string{"127.0.0.1"}, pki.Options{Now: clock, Lifetime: time.Hour})
	require.NoError(w, err)
	_, err = w.own.Replace(Bundle(pair, w.ca), clock)
	require.NoError(w, err)
	log, says := w.hear()
	w.dial("north", w.address, End{Own: w.ca.Client(w, "north"), Heartbeat: heartbeat, Log: log})
	w.says("the hub", w.logged, w.lines, "remote error: tls: ")
	says(invalid, " is after 20")
}

// hear returns a log of an agent, and what waits until texts are in one of its lines.
func (w *world) hear() (log *zap.Logger, says func(texts ...string)) {
	core, logged := observer.New(zap.InfoLevel)
	lines := make(chan string, 1000)
	log = zap.New(zapcore.RegisterHooks(core, func(e zapcore.Entry) error {
		select {
		case lines <- e.Message:
		default: // it is known that there is something new
		}
		return nil
	}))
	return log, func(texts ...string) { w.Helper(); w.says("the agent", logged, lines, texts...) }
}

// says waits until a log has a line, which comes when there is something new, with all texts
// in it.
func (w *world) says(who string, logged *observer.ObservedLogs, lines <-chan string, texts ...string) {
	w.Helper()
	late := time.After(time.Minute)
	has := func(e observer.LoggedEntry) bool {
		line := fmt.Sprint(e.Message, e.ContextMap())
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
	}
	for !slices.ContainsFunc(logged.All(), has) {
		select {
		case <-lines:
		case <-late:
			require.FailNow(w, who+" does not say it", "%q but %v", texts, logged.All())
		}
	}
}
