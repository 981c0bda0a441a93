package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

var began = time.Unix(1000, 0)

func after(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }

func wrote(app, n, ms int) fleet.Write { return fleet.Write{App: app, N: n, At: after(ms).UnixNano()} }

func TestMeasureCountsWhatWasReplacedAsSettled(t *testing.T) {
	changes := []change{{0, 1, after(0)}, {1, 2, after(100)}, {0, 3, after(200)}, {1, 4, after(1000)}}
	p := measure(changes, []fleet.Write{wrote(0, 3, 500), wrote(1, 2, 150), wrote(1, 4, 1200)}, 4, after(5000))
	require.Equal(t, Phase{
		Offered: 4, Written: 3, OfferedRate: 4, SettledRate: 3, WrittenRate: 2,
		P50: 200, P99: 500, Worst: 500, Backlog: 1, Drain: 200,
	}, p)
}

func TestMeasureCountsWhatIsNeverWrittenAsBacklog(t *testing.T) {
	p := measure([]change{{0, 1, after(0)}, {1, 2, after(1000)}}, nil, 2, after(3000))
	require.Equal(t, 2, p.Backlog)
	require.Equal(t, 3000.0, p.Worst)
	require.Equal(t, 2000.0, p.Drain)
	require.Zero(t, p.Written)
	require.Zero(t, p.SettledRate)
}

func TestDisorder(t *testing.T) {
	repeated, reordered := disorder([]fleet.Write{wrote(0, 1, 0), wrote(1, 2, 1), wrote(0, 4, 2), wrote(0, 3, 3), wrote(1, 2, 4), wrote(1, 5, 5)})
	require.Equal(t, 1, repeated)
	require.Equal(t, 1, reordered)
}

// TestGrowth is about a backlog of a rate of 200 changes a second.
func TestGrowth(t *testing.T) {
	noisy := func(slope float64) (backlog []float64) {
		for i := range 60 {
			backlog = append(backlog, 20+slope*float64(i)*spacing.Seconds()+[]float64{-6, 4, 5, -3}[i%4])
		}
		return backlog
	}
	require.Zero(t, growth(noisy(0), 200))
	require.Zero(t, growth(noisy(1), 200), "that is less than a hundredth")
	require.InDelta(t, 10, growth(noisy(10), 200), 0.5, "the agent writes 190 a second")
	require.Zero(t, growth(noisy(-10), 200), "it shrinks")
	require.Zero(t, growth(noisy(10)[:7], 200), "too little to tell")
	shaken := noisy(3)
	for i := range shaken {
		shaken[i] += float64(i%2) * 500
	}
	require.Zero(t, growth(shaken, 200), "that is within the scatter")
}

// TestMeasureSeesABacklogGrow is about an agent that writes one change after the other.
func TestMeasureSeesABacklogGrow(t *testing.T) {
	var changes []change
	var writes []fleet.Write
	for i := range 2000 {
		changes = append(changes, change{i % 1000, i + 1, after(10 * i)})
	}
	for i := range 100 {
		writes = append(writes, wrote(i, i+1, 105*(i+1)))
	}
	p := measure(changes, writes, 100, after(20_000))
	require.InDelta(t, 100, p.Growth, 10)
	require.Equal(t, 1900, p.Backlog)
	_, _, ok := judge(slowGauges(), []SlowRun{{Steady: p, Outcome: Outcome{Unique: 1}}})
	require.False(t, ok)
}

func good() SlowRun {
	return SlowRun{
		Steady:   Phase{OfferedRate: 200, P99: 150, Backlog: 20},
		Overload: Phase{WrittenRate: 500},
		Outcome:  Outcome{Received: 100, Unique: 100},
	}
}

func TestTheMedianIsJudgedAndWhatIsFatalByTheWorst(t *testing.T) {
	_, verdict, ok := judge(slowGauges(), []SlowRun{good(), good(), good()})
	require.True(t, ok)
	require.NotContains(t, verdict, "MISSED")
	require.Contains(t, verdict, "overload: written, changes/s 500 (goal ≥ 300, met)")

	slow := good()
	slow.Steady.P99, slow.Overload.WrittenRate = 900, 10
	measures, verdict, ok := judge(slowGauges(), []SlowRun{good(), slow, good()})
	require.True(t, ok)
	require.NotContains(t, verdict, "MISSED", "one of three")
	i := slices.IndexFunc(measures, func(m Measure) bool { return m.Name == "overload: written, changes/s" })
	require.Equal(t, Measure{Name: "overload: written, changes/s", Median: 500, Worst: 10, Goal: "≥ 300", Met: true}, measures[i])
	_, verdict, ok = judge(slowGauges(), []SlowRun{slow, slow, good()})
	require.True(t, ok, "time depends on the machine")
	require.Contains(t, verdict, "p99, ms 900 (goal ≤ 400, MISSED)")

	for name, spoil := range map[string]func(*SlowRun){
		"Applications lost 1 (goal ≤ 0, MISSED)":                 func(r *SlowRun) { r.Lost = 1 },
		"changes written twice 1 (goal ≤ 0, MISSED)":             func(r *SlowRun) { r.Repeated = 1 },
		"changes written out of order 1 (goal ≤ 0, MISSED)":      func(r *SlowRun) { r.Reordered = 1 },
		"growth of the backlog, changes/s 9 (goal ≤ 0, MISSED)":  func(r *SlowRun) { r.Steady.Growth = 9 },
		"backlog at the end, s of offering 2 (goal ≤ 1, MISSED)": func(r *SlowRun) { r.Steady.Backlog = 400 },
	} {
		bad := good()
		spoil(&bad)
		_, verdict, ok := judge(slowGauges(), []SlowRun{good(), bad, good()})
		require.False(t, ok, name)
		require.Contains(t, verdict, name)
	}
}

func TestLatencyIsOfRanks(t *testing.T) {
	var took []int64
	for i := range 100 {
		took = append(took, int64(100-i)*int64(time.Millisecond))
	}
	require.Equal(t, Latency{P50: 50, P99: 99, Worst: 100}, latencyOf(took))
	require.Zero(t, latencyOf(nil))
}

func TestATallyCountsWhatIsWrittenAgain(t *testing.T) {
	tl := newTally(2)
	for _, w := range [][2]int{{0, 1}, {1, 2}, {0, 3}, {0, 3}, {0, 1}} {
		tl.take(w[0], w[1])
	}
	require.Equal(t, tally{newest: []int{3, 2}, written: 3, repeated: 1, reordered: 1}, tl)
	require.Zero(t, missing(tl.newest, []int{3, 2}))
	require.Equal(t, 2, missing(tl.newest, []int{4, 2, 9}), "one is older, and one is not there")
}
