package bench

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// loud is by how much more than another one the noisy agent says and is told.
const loud = 100

// A NoisyRun is what one run has measured of quiet agents beside a noisy one.
type NoisyRun struct {
	Quiet Latency `json:"quiet"` // from the hub's watch to the spoke's write, of the quiet agents while all are
	Noisy Latency `json:"noisy"` // the same while one is noisy
	Outcome
}

func noisyGauges() []gauge[NoisyRun] {
	return append([]gauge[NoisyRun]{
		{name: "quiet agents, all quiet, p50, ms", of: func(r NoisyRun) float64 { return r.Quiet.P50 }},
		{name: "quiet agents, all quiet, p99, ms", of: func(r NoisyRun) float64 { return r.Quiet.P99 }},
		{name: "quiet agents, one noisy, p50, ms", of: func(r NoisyRun) float64 { return r.Noisy.P50 }},
		{name: "quiet agents, one noisy, p99, ms", of: func(r NoisyRun) float64 { return r.Noisy.P99 }},
		{name: "p99 with the noisy one ÷ without", of: func(r NoisyRun) float64 { return r.Noisy.P99 / r.Quiet.P99 }, goal: limit(1.2)},
	}, outcomes(func(r NoisyRun) Outcome { return r.Outcome })...)
}

// measureNoisy changes Applications of all agents but the last at a rate; and then those of the
// last one too, a hundred times as often as those of any other, on both sides.
func measureNoisy(ctx context.Context, s Settings) (Report, error) {
	return repeat(s, noisyGauges(), func(s Settings) (NoisyRun, error) {
		return in(ctx, s, fleet.Order{Noted: true}, (*world).noisy)
	})
}

func (w *world) noisy() (r NoisyRun, err error) {
	o, err := w.fill()
	if err != nil {
		return r, err
	}
	quiet := (w.Agents - 1) * w.Apps // those of the last agent come last
	changes, err := o.some(w.ctx, w.Rate, w.Duration, func() int { return o.random.IntN(quiet) })
	if err == nil {
		err = w.drain(o.last)
	}
	if err != nil {
		return r, err
	}
	r.Quiet, _ = w.took(changes)
	each := max(loud*w.Rate/(w.Agents-1), 1)
	share := float64(each) / float64(each+w.Rate)
	beside, _ := errgroup.WithContext(w.ctx)
	beside.Go(func() error {
		_, err := w.agents.Push(fleet.Push{First: w.Agents - 1, Agents: 1, Apps: w.Apps, From: 1, Resources: statusSize, Rate: each, For: w.Duration})
		return err
	})
	changes, err = o.some(w.ctx, each+w.Rate, w.Duration, func() int {
		if o.random.Float64() < share {
			return quiet + o.random.IntN(w.Apps)
		}
		return o.random.IntN(quiet)
	})
	if failed := beside.Wait(); err == nil {
		err = failed
	}
	if err == nil {
		err = w.drain(o.last)
	}
	if err != nil {
		return r, err
	}
	r.Noisy, _ = w.took(slices.DeleteFunc(changes, func(c change) bool { return c.app >= quiet }))
	r.Outcome, err = w.outcome(o.last)
	return r, err
}
