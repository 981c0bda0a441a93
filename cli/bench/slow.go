package bench

import (
	"context"
	"errors"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// overload is by how much the second phase of a run offers more than the first, and short
// how much shorter it is.
const (
	overload = 10
	short    = 3
)

// A SlowRun is what one run has measured of agents whose clusters take their time to write:
// whether they keep up with their hub, and how much they can take.
type SlowRun struct {
	Steady   Phase `json:"steady"`   // changes are offered at the rate
	Overload Phase `json:"overload"` // they are offered ten times as fast
	Outcome
	// CPU is what the agents' process has used of the processors in all, in milliseconds.
	CPU float64 `json:"cpu"`
}

// An Outcome is what has become of changes in the end.
type Outcome struct {
	// Received is how many messages about Applications the agents have got, and Unique how
	// many different ones.
	Received int `json:"received"`
	Unique   int `json:"unique"`
	// Lost is how many Applications were not in the end as they were changed last.
	Lost int `json:"lost"`
	// Repeated is how many changes were written again after they had been written, and
	// Reordered how many after a later one of the same Application.
	Repeated  int `json:"repeated"`
	Reordered int `json:"reordered"`
}

func (o Outcome) ratio() float64 { return float64(o.Received) / float64(max(o.Unique, 1)) }

// outcome returns what has become of changes, of which the last of each Application are known.
func (w *world) outcome(last []int) (o Outcome, err error) {
	n, err := w.agents.Count()
	if err != nil {
		return o, err
	}
	o.Received, o.Unique = n.Received, n.Unique
	writes := w.applied.all()
	o.Repeated, o.Reordered = disorder(writes)
	newest := newTally(len(last))
	for _, write := range writes {
		newest.take(write.App, write.N)
	}
	if w.Kubeconfig == "" { // what clusters hold is better than what they were seen to take
		if newest.newest, err = w.agents.Holds(); err != nil {
			return o, err
		}
	}
	o.Lost = missing(newest.newest, last)
	return o, nil
}

// outcomes are the gauges of an Outcome.
func outcomes[R any](of func(R) Outcome) []gauge[R] {
	return []gauge[R]{
		{name: "messages received ÷ unique", of: func(r R) float64 { return of(r).ratio() }, goal: limit(1.02)},
		{name: "Applications lost", of: func(r R) float64 { return float64(of(r).Lost) }, goal: limit(0), fatal: true},
		{name: "changes written twice", of: func(r R) float64 { return float64(of(r).Repeated) }, goal: limit(0), fatal: true},
		{name: "changes written out of order", of: func(r R) float64 { return float64(of(r).Reordered) }, goal: limit(0), fatal: true},
	}
}

func steadyGauges() []gauge[SlowRun] {
	return []gauge[SlowRun]{
		{name: "offered, changes/s", of: func(r SlowRun) float64 { return r.Steady.OfferedRate }, worse: less},
		{name: "settled, changes/s", of: func(r SlowRun) float64 { return r.Steady.SettledRate }, worse: less},
		{name: "written, changes/s", of: func(r SlowRun) float64 { return r.Steady.WrittenRate }, worse: less},
		{name: "hub's write to spoke's, p50, ms", of: func(r SlowRun) float64 { return r.Steady.P50 }},
		{name: "hub's write to spoke's, p99, ms", of: func(r SlowRun) float64 { return r.Steady.P99 }, goal: limit(400)},
		{name: "hub's write to spoke's, worst, ms", of: func(r SlowRun) float64 { return r.Steady.Worst }},
		{name: "backlog at the end, changes", of: func(r SlowRun) float64 { return float64(r.Steady.Backlog) }},
		{name: "backlog at the end, s of offering", of: func(r SlowRun) float64 { return float64(r.Steady.Backlog) / r.Steady.OfferedRate }, goal: limit(1), fatal: true},
		{name: "growth of the backlog, changes/s", of: func(r SlowRun) float64 { return r.Steady.Growth }, goal: limit(0), fatal: true},
		{name: "drain after the end, ms", of: func(r SlowRun) float64 { return r.Steady.Drain }},
		{name: "agents' CPU, ms per 1,000 messages", of: func(r SlowRun) float64 { return r.CPU / float64(max(r.Received, 1)) * 1000 }},
	}
}

func overloadGauges() []gauge[SlowRun] {
	return []gauge[SlowRun]{
		{name: "overload: offered, changes/s", of: func(r SlowRun) float64 { return r.Overload.OfferedRate }, worse: less},
		{name: "overload: settled, changes/s", of: func(r SlowRun) float64 { return r.Overload.SettledRate }, worse: less},
		{name: "overload: written, changes/s", of: func(r SlowRun) float64 { return r.Overload.WrittenRate }, worse: less, goal: limit(300)},
		{name: "overload: drain after the end, ms", of: func(r SlowRun) float64 { return r.Overload.Drain }},
	}
}

func slowGauges() []gauge[SlowRun] {
	return append(append(steadyGauges(), overloadGauges()...), outcomes(func(r SlowRun) Outcome { return r.Outcome })...)
}

// measureSlow offers changes at the rate, and then ten times as fast for a third of the time.
func measureSlow(ctx context.Context, s Settings) (Report, error) {
	return repeat(s, slowGauges(), func(s Settings) (SlowRun, error) {
		return slowRun(ctx, s, func(r *SlowRun) []phase {
			return []phase{{&r.Steady, s.Rate, s.Duration}, {&r.Overload, overload * s.Rate, s.Duration / short}}
		})
	})
}

// measureOverload offers changes ten times as fast as at the rate, all the time.
func measureOverload(ctx context.Context, s Settings) (Report, error) {
	gauges := append(overloadGauges(), outcomes(func(r SlowRun) Outcome { return r.Outcome })...)
	return repeat(s, gauges, func(s Settings) (SlowRun, error) {
		return slowRun(ctx, s, func(r *SlowRun) []phase { return []phase{{&r.Overload, overload * s.Rate, s.Duration}} })
	})
}

// A phase is one of a run.
type phase struct {
	into *Phase
	rate int
	time time.Duration
}

func slowRun(ctx context.Context, s Settings, phases func(*SlowRun) []phase) (SlowRun, error) {
	return in(ctx, s, fleet.Order{Delay: s.Delay, Noted: true}, func(w *world) (r SlowRun, err error) {
		o, err := w.fill()
		if err != nil {
			return r, err
		}
		before, err := w.agents.CPU()
		if err != nil {
			return r, err
		}
		for _, p := range phases(&r) {
			if *p.into, err = w.offered(o, p.rate, p.time, o.uniform); err != nil {
				return r, err
			}
		}
		after, err := w.agents.CPU()
		if err != nil {
			return r, err
		}
		r.CPU = millis(int64(after - before))
		r.Outcome, err = w.outcome(o.last)
		return r, err
	})
}

// offered offers changes, waits until they are written, and measures that. What is late is
// measured, too.
func (w *world) offered(o *offer, rate int, d time.Duration, pick func() int) (Phase, error) {
	changes, err := o.some(w.ctx, rate, d, pick)
	if err == nil {
		err = w.drain(o.last)
	}
	if err != nil && !errors.Is(err, errLate) {
		return Phase{}, err
	}
	return measure(changes, w.applied.all(), rate, time.Now()), nil
}
