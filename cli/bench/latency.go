package bench

import (
	"context"
	"slices"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// A LatencyRun is what one run has measured of the way from hub to spoke.
type LatencyRun struct {
	Offered int `json:"offered"` // changes
	// How long it took from when the principal was shown a change until its agent began to
	// write it, or a later one of the same Application.
	Issued Latency `json:"issued"`
	// The same from before the change on the hub until the write had returned.
	Whole Latency `json:"whole"`
	Outcome
}

// A Latency is how long something took, in milliseconds.
type Latency struct {
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Worst float64 `json:"worst"`
}

// latencyOf sums up nanoseconds; the zero Latency is that of none.
func latencyOf(took []int64) Latency {
	if len(took) == 0 {
		return Latency{}
	}
	slices.Sort(took)
	return Latency{millis(rank(took, 0.5)), millis(rank(took, 0.99)), millis(took[len(took)-1])}
}

func latencyGauges(api bool) []gauge[LatencyRun] {
	p50, p99 := limit(5), limit(25)
	if api {
		p50, p99 = nil, limit(250)
	}
	return append([]gauge[LatencyRun]{
		{name: "hub's watch to spoke's write, p50, ms", of: func(r LatencyRun) float64 { return r.Issued.P50 }, goal: p50},
		{name: "hub's watch to spoke's write, p99, ms", of: func(r LatencyRun) float64 { return r.Issued.P99 }, goal: p99},
		{name: "hub's watch to spoke's write, worst, ms", of: func(r LatencyRun) float64 { return r.Issued.Worst }},
		{name: "hub's write to end of spoke's, p50, ms", of: func(r LatencyRun) float64 { return r.Whole.P50 }},
		{name: "hub's write to end of spoke's, p99, ms", of: func(r LatencyRun) float64 { return r.Whole.P99 }},
	}, outcomes(func(r LatencyRun) Outcome { return r.Outcome })...)
}

// measureLatency changes Applications of all agents at a rate.
func measureLatency(ctx context.Context, s Settings) (Report, error) {
	return repeat(s, latencyGauges(s.Kubeconfig != ""), func(s Settings) (LatencyRun, error) {
		return in(ctx, s, fleet.Order{Noted: true}, func(w *world) (r LatencyRun, err error) {
			o, err := w.fill()
			if err != nil {
				return r, err
			}
			changes, err := o.some(w.ctx, s.Rate, s.Duration, o.uniform)
			if err == nil {
				err = w.drain(o.last)
			}
			if err != nil {
				return r, err
			}
			r.Offered = len(changes)
			r.Issued, r.Whole = w.took(changes)
			r.Outcome, err = w.outcome(o.last)
			return r, err
		})
	})
}

// took returns how long changes took that have been settled.
func (w *world) took(changes []change) (issued, whole Latency) {
	var to, through []int64
	writes := w.applied.all()
	begun := make([]fleet.Write, len(writes)) // as if they were over when they begin
	for i, x := range writes {
		begun[i] = x
		begun[i].At = x.Issued
	}
	now := time.Now().UnixNano()
	starts, _ := settle(changes, begun, now)
	ends, _ := settle(changes, writes, now)
	for i, c := range changes {
		to = append(to, max(starts[i]-w.hub.saw(c.n, c.at).UnixNano(), 0))
		through = append(through, ends[i]-c.at.UnixNano())
	}
	return latencyOf(to), latencyOf(through)
}
