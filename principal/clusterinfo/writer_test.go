package clusterinfo_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/principal/clusterinfo"
)

// A memory is a Cache whose values expire, and which can be away.
type memory struct {
	mu     sync.Mutex
	values map[string]value
	writes int // of single values
	away   error
}

type value struct {
	text    []byte
	expires time.Time
}

func (m *memory) Apply(_ context.Context, put map[string][]byte, drop []string, lifetime time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away != nil {
		return m.away
	}
	for key, text := range put {
		m.values[key] = value{text, time.Now().Add(lifetime)}
		m.writes++
	}
	for _, key := range drop {
		delete(m.values, key)
	}
	return nil
}

// fail lets every Apply fail with err, unless that is nil.
func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = err
}

func (m *memory) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.values)
}

// shown returns the states of the connections that are shown now, by server.
func (m *memory) shown(t *testing.T) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := map[string]string{}
	for key, v := range m.values {
		if !time.Now().Before(v.expires) {
			continue
		}
		var entry struct {
			ConnectionState struct{ Status string }
		}
		require.NoError(t, json.Unmarshal(v.text, &entry))
		states[key[len("cluster|info|"):len(key)-len("|1.8.3")]] = entry.ConnectionState.Status
	}
	return states
}

type states = map[string]string

// writing plays a story in virtual time, in which a Writer runs. Its entries live for 4
// rounds of 10 s, and an agent is stale after a minute.
func writing(t *testing.T, story func(*clusterinfo.Writer, *memory, *observer.ObservedLogs)) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{values: map[string]value{}}
		core, logs := observer.New(zap.DebugLevel)
		w, err := clusterinfo.New(clusterinfo.Config{
			Cache: m, Stale: time.Minute, Every: 10 * time.Second, Lifetime: 40 * time.Second, Log: zap.New(core),
		})
		require.NoError(t, err)
		cause := errors.New("the test is over")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		story(w, m, logs)
		cancel(cause)
		require.ErrorIs(t, <-ended, cause)
	})
}

// there is the Info of an agent that is connected.
func there(server string) clusterinfo.Info {
	return clusterinfo.Info{Server: server, Connected: true, Since: time.Now()}
}

func TestAChangeIsShownAtOnce(t *testing.T) {
	writing(t, func(w *clusterinfo.Writer, m *memory, _ *observer.ObservedLogs) {
		for _, agent := range []string{"a", "b", "c"} {
			w.Set(agent, there(agent))
		}
		synctest.Wait()
		require.Equal(t, states{"a": "Successful", "b": "Successful", "c": "Successful"}, m.shown(t))
		writes := m.writes
		w.Set("b", clusterinfo.Info{Server: "b"})
		synctest.Wait()
		require.Equal(t, states{"a": "Successful", "b": "Unknown", "c": "Successful"}, m.shown(t))
		require.Equal(t, writes+1, m.writes, "the others have not changed")
	})
}

func TestEntriesAreWrittenAgainBeforeTheyExpire(t *testing.T) {
	writing(t, func(w *clusterinfo.Writer, m *memory, _ *observer.ObservedLogs) {
		w.Set("a", there("a"))
		for range 100 {
			time.Sleep(7 * time.Second)
			synctest.Wait()
			require.Equal(t, states{"a": "Successful"}, m.shown(t))
		}
	})
}

func TestEntriesOfAWriterThatHasEndedExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept *memory
		writing := func() {
			m := &memory{values: map[string]value{}}
			w, err := clusterinfo.New(clusterinfo.Config{Cache: m, Log: zap.NewNop()})
			require.NoError(t, err)
			w.Set("a", there("a"))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- w.Run(ctx) }()
			synctest.Wait()
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
			kept = m
		}
		writing()
		time.Sleep(10*time.Minute - time.Nanosecond)
		require.Equal(t, states{"a": "Successful"}, kept.shown(t))
		time.Sleep(time.Nanosecond)
		require.Empty(t, kept.shown(t))
	})
}

func TestAnAgentThatStaysAwayBecomesAFailedConnection(t *testing.T) {
	writing(t, func(w *clusterinfo.Writer, m *memory, _ *observer.ObservedLogs) {
		w.Set("a", clusterinfo.Info{Server: "a", Since: time.Now()})
		time.Sleep(59 * time.Second)
		require.Equal(t, states{"a": "Successful"}, m.shown(t))
		time.Sleep(12 * time.Second) // nobody says anything; the next round finds it
		require.Equal(t, states{"a": "Failed"}, m.shown(t))
		w.Set("a", there("a"))
		synctest.Wait()
		require.Equal(t, states{"a": "Successful"}, m.shown(t))
	})
}

func TestWhatIsForgottenGoes(t *testing.T) {
	writing(t, func(w *clusterinfo.Writer, m *memory, _ *observer.ObservedLogs) {
		w.Set("a", there("one"))
		w.Set("b", there("two"))
		synctest.Wait()
		w.Forget("a")
		w.Forget("nobody")
		synctest.Wait()
		require.Equal(t, states{"two": "Successful"}, m.shown(t))

		w.Set("b", there("three"))
		synctest.Wait()
		require.Equal(t, states{"three": "Successful"}, m.shown(t), "the cluster has another URL")

		w.Forget("b")
		w.Set("c", there("three"))
		synctest.Wait()
		require.Equal(t, states{"three": "Successful"}, m.shown(t), "the URL is now another agent's")
	})
}

func TestACacheThatWasEmptiedIsFilledInTheNextRound(t *testing.T) {
	writing(t, func(w *clusterinfo.Writer, m *memory, _ *observer.ObservedLogs) {
		w.Set("a", there("a"))
		w.Set("b", there("b"))
		synctest.Wait()
		m.flush()
		time.Sleep(11 * time.Second)
		require.Equal(t, states{"a": "Successful", "b": "Successful"}, m.shown(t))
	})
}

func TestACacheThatWasAwayIsMadeGoodInTheNextRound(t *testing.T) {
	writing(t, func(w *clusterinfo.Writer, m *memory, logs *observer.ObservedLogs) {
		w.Set("a", there("a"))
		w.Set("b", there("b"))
		synctest.Wait()
		m.fail(errors.New("connection refused"))
		w.Forget("a")
		w.Set("c", there("c"))
		time.Sleep(35 * time.Second)
		require.Equal(t, states{"a": "Successful", "b": "Successful"}, m.shown(t), "nothing could be written")
		m.fail(nil)
		time.Sleep(10 * time.Second)
		require.Equal(t, states{"b": "Successful", "c": "Successful"}, m.shown(t))

		var said []string
		for _, l := range logs.All() {
			said = append(said, l.Message)
		}
		require.Equal(t, []string{"clusters are not shown as they are", "clusters are shown as they are again"}, said)
		require.Equal(t, "connection refused", logs.All()[0].ContextMap()["error"])
	})
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	cache, log := &memory{}, zap.NewNop()
	for want, c := range map[string]clusterinfo.Config{
		"clusterinfo: cache and log are needed": {Log: log},
		"clusterinfo: stale of -1s":             {Cache: cache, Log: log, Stale: -time.Second},
		"clusterinfo: entries that live for 5s expire before they are written again after 10s": {Cache: cache, Log: log, Lifetime: 5 * time.Second},
	} {
		_, err := clusterinfo.New(c)
		require.EqualError(t, err, want)
	}
}
