package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// be is the argument by which this test binary is another process.
const be = "be-the-agents"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) != 2 || os.Args[1] != be:
		goleak.VerifyTestMain(m)
	default:
		if err := RunAgents(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func small() Settings {
	return Settings{
		Transport: fleet.Leaf, Agents: 2, Apps: 10, Rate: 50, Duration: time.Second, Delay: 20 * time.Millisecond,
		Requests: 20, Seed: 1, Runs: 1, Command: []string{os.Args[0], be}, Log: zap.NewNop(),
	}
}

func row(t *testing.T, name string) Row {
	i := slices.IndexFunc(Rows(), func(r Row) bool { return r.Name == name })
	require.GreaterOrEqual(t, i, 0)
	return Rows()[i]
}

// TestRowsAreMeasured says nothing of how long anything took, or of how much there was of it.
func TestRowsAreMeasured(t *testing.T) {
	for _, c := range []struct {
		row       string
		transport Carrier
	}{
		{"latency", fleet.Leaf}, {"slow-backend", fleet.Leaf}, {"overload", fleet.GRPC}, {"status", fleet.GRPC},
		{"away", fleet.Leaf}, {"noisy", fleet.GRPC}, {"restart", fleet.GRPC}, {"wire", fleet.Client}, {"live", fleet.GRPC},
		{"stored", fleet.GRPC},
	} {
		t.Run(c.row+" "+string(c.transport), func(t *testing.T) {
			t.Parallel() // each waits most of the time
			s := small()
			s.Transport = c.transport
			r, err := row(t, c.row).Measure(t.Context(), s)
			require.NoError(t, err)
			require.True(t, r.OK, r.Verdict)
			require.Equal(t, c.row, r.Row)
			_, err = json.Marshal(r)
			require.NoError(t, err)
		})
	}
}

func TestASlowBackendIsMeasured(t *testing.T) {
	s := small()
	r, err := slowRun(t.Context(), s, func(r *SlowRun) []phase {
		return []phase{{&r.Steady, 50, time.Second}, {&r.Overload, 1000, time.Second}}
	})
	require.NoError(t, err)
	require.Equal(t, 50, r.Steady.Offered)
	require.Equal(t, 1000, r.Overload.Offered)
	require.Equal(t, r.Unique, r.Received, "on a good network nothing is sent twice")
	for _, p := range []Phase{r.Steady, r.Overload} {
		require.LessOrEqual(t, p.Written, p.Offered)
		require.GreaterOrEqual(t, p.P50, 20.0, "no write is faster than the delay")
	}
	require.Less(t, r.Overload.Written, r.Overload.Offered, "what is late is replaced by what is newer")
}

func TestOnlyTheLatestCrossesAfterADay(t *testing.T) {
	s := small()
	s.Agents, s.Requests = 1, 500
	r, err := in(t.Context(), s, fleet.Order{Noted: true}, func(w *world) (AwayRun, error) { return w.away(s.Requests) })
	require.NoError(t, err)
	require.Equal(t, AwayRun{Changes: 500, Deleted: 1, Messages: 10, Back: r.Back}, r)
}

func TestMemoryIsOfTheOthers(t *testing.T) {
	s := small()
	s.Transport, s.Apps = fleet.GRPC, 1
	w, err := s.start(t.Context(), fleet.Order{First: 1}, 0)
	require.NoError(t, err)
	require.NoError(t, w.inStep())
	n, err := w.agents.InStep()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	w.roster.complete()
	require.NoError(t, w.agents.Resume())
	require.NoError(t, w.inStep())
	n, err = w.agents.InStep()
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.NoError(t, w.stop())
}

func TestTheEndOfTheAgentsIsAnError(t *testing.T) {
	s := small()
	s.Transport = fleet.GRPC // a NATS server that is stopped while it makes a stream leaves a goroutine of it
	s.Command = []string{"sh", "-c", "echo it is broken >&2; exit 3"}
	_, err := row(t, "latency").Measure(t.Context(), s)
	require.ErrorContains(t, err, "it is broken")
}

func TestAMeasurementEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	s := small()
	s.Transport = fleet.GRPC // as above
	s.Duration = time.Hour
	_, err := row(t, "latency").Measure(ctx, s)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestSettingsAreChecked(t *testing.T) {
	for flag, spoil := range map[string]func(*Settings){
		"delay":     func(s *Settings) { s.Delay = -1 },
		"rate":      func(s *Settings) { s.Rate = 0 },
		"duration":  func(s *Settings) { s.Duration = 0 },
		"apps":      func(s *Settings) { s.Apps = 0 },
		"agents":    func(s *Settings) { s.Agents = -1 },
		"runs":      func(s *Settings) { s.Runs = 0 },
		"transport": func(s *Settings) { s.Transport = "pigeons" },
	} {
		s := small()
		spoil(&s)
		_, err := row(t, "slow-backend").Measure(t.Context(), s)
		var misfit *Misfit
		require.ErrorAs(t, err, &misfit)
		require.Equal(t, flag, misfit.Flag)
	}
	_, err := row(t, "churn").Measure(t.Context(), small())
	require.ErrorContains(t, err, "too short")
}

// TestTheTableIsWhole demands that help and page have something to say, and that every argument
// on the page is one of a flag.
func TestTheTableIsWhole(t *testing.T) {
	names := map[string]bool{}
	for _, r := range Rows() {
		require.NotEmpty(t, r.Name)
		require.False(t, names[r.Name], r.Name)
		names[r.Name] = true
		require.NotEmpty(t, r.Numbers, r.Name)
		require.NotEmpty(t, r.Usage, r.Name)
		require.NotEmpty(t, r.Text, r.Name)
		require.NotEmpty(t, r.Limits, r.Name)
		require.NotEmpty(t, r.Long, r.Name)
		for _, args := range append(slices.Clone(r.Page), r.Long...) {
			for i := 0; i < len(args); i += 2 {
				require.True(t, slices.ContainsFunc(r.Flags, func(f Flag) bool { return "--"+f.Name == args[i] }), "%s %s", r.Name, args[i])
			}
		}
	}
}
