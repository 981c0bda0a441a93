package bench

import (
	"fmt"
	"slices"
	"strings"
)

// A Result is what several runs have measured.
type Result struct {
	Runs     []Run     `json:"runs"`
	Measures []Measure `json:"measures"`
	OK       bool      `json:"ok"`      // nothing was lost, and no backlog was left to grow
	Verdict  string    `json:"verdict"` // in one line, with the goals
}

// A Measure is one figure of all runs.
type Measure struct {
	Name   string  `json:"name"`
	Median float64 `json:"median"`
	Worst  float64 `json:"worst"`
	Goal   string  `json:"goal,omitempty"`
	Met    bool    `json:"met"` // by the median, or by the worst where a single miss is a failure
}

// A sense says which of two figures is the worse one.
type sense bool

const (
	more sense = false
	less sense = true
)

// A gauge says how a Measure is read from what a run has measured, and what it should be.
type gauge[R any] struct {
	name  string
	of    func(R) float64
	worse sense
	goal  *float64 // the worst that is good
	fatal bool     // a single miss is a failure
}

func limit(v float64) *float64 { return &v }

// gauges are what a slow backend is measured by.
func gauges() []gauge[Run] {
	return []gauge[Run]{
		{name: "offered, changes/s", of: func(r Run) float64 { return r.Steady.OfferedRate }, worse: less},
		{name: "settled, changes/s", of: func(r Run) float64 { return r.Steady.SettledRate }, worse: less},
		{name: "written, changes/s", of: func(r Run) float64 { return r.Steady.WrittenRate }, worse: less},
		{name: "hub's write to spoke's, p50, ms", of: func(r Run) float64 { return r.Steady.P50 }},
		{name: "hub's write to spoke's, p99, ms", of: func(r Run) float64 { return r.Steady.P99 }, goal: limit(400)},
		{name: "hub's write to spoke's, worst, ms", of: func(r Run) float64 { return r.Steady.Worst }},
		{name: "backlog at the end, changes", of: func(r Run) float64 { return float64(r.Steady.Backlog) }},
		{name: "backlog at the end, s of offering", of: func(r Run) float64 { return float64(r.Steady.Backlog) / r.Steady.OfferedRate }, goal: limit(1), fatal: true},
		{name: "growth of the backlog, changes/s", of: func(r Run) float64 { return r.Steady.Growth }, goal: limit(0), fatal: true},
		{name: "drain after the end, ms", of: func(r Run) float64 { return r.Steady.Drain }},
		{name: "overload: offered, changes/s", of: func(r Run) float64 { return r.Overload.OfferedRate }, worse: less},
		{name: "overload: settled, changes/s", of: func(r Run) float64 { return r.Overload.SettledRate }, worse: less},
		{name: "overload: written, changes/s", of: func(r Run) float64 { return r.Overload.WrittenRate }, worse: less, goal: limit(300)},
		{name: "overload: drain after the end, ms", of: func(r Run) float64 { return r.Overload.Drain }},
		{name: "messages received ÷ unique", of: func(r Run) float64 { return float64(r.Received) / float64(max(r.Unique, 1)) }, goal: limit(1.02)},
		{name: "agent's CPU, ms per 1,000 messages", of: func(r Run) float64 { return r.CPU / float64(max(r.Received, 1)) * 1000 }},
		{name: "Applications lost", of: func(r Run) float64 { return float64(r.Lost) }, goal: limit(0), fatal: true},
		{name: "changes written twice", of: func(r Run) float64 { return float64(r.Repeated) }, goal: limit(0)},
		{name: "changes written out of order", of: func(r Run) float64 { return float64(r.Reordered) }, goal: limit(0)},
	}
}

// sum takes the measures of all runs.
func sum(runs []Run) Result {
	r := Result{Runs: runs}
	r.Measures, r.Verdict, r.OK = judge(gauges(), runs)
	word := "it keeps up"
	if !r.OK {
		word = "it does NOT keep up"
	}
	r.Verdict = word + ": " + r.Verdict
	return r
}

// judge takes measures of all runs, and says of each that has a goal whether it is met. It is ok
// unless a fatal one is missed.
func judge[R any](gauges []gauge[R], runs []R) (measures []Measure, verdict string, ok bool) {
	ok = true
	var said []string
	for _, g := range gauges {
		m := g.measure(runs)
		measures = append(measures, m)
		ok = ok && (m.Met || !g.fatal)
		if g.goal != nil {
			said = append(said, g.say(m))
		}
	}
	return measures, strings.Join(said, "; "), ok
}

func (g gauge[R]) measure(runs []R) Measure {
	var values []float64
	for _, r := range runs {
		values = append(values, g.of(r))
	}
	m := Measure{Name: g.name, Median: median(values), Worst: slices.Max(values), Met: true}
	if g.worse == less {
		m.Worst = slices.Min(values)
	}
	if g.goal != nil {
		m.Goal = map[sense]string{more: "≤ ", less: "≥ "}[g.worse] + Figure(*g.goal)
		m.Met = g.judged(m) == *g.goal || g.judged(m) < *g.goal == (g.worse == more)
	}
	return m
}

// judged returns what of a Measure its goal is compared with.
func (g gauge[R]) judged(m Measure) float64 {
	if g.fatal {
		return m.Worst
	}
	return m.Median
}

func (g gauge[R]) say(m Measure) string {
	met := "met"
	if !m.Met {
		met = "MISSED"
	}
	return fmt.Sprintf("%s %s (goal %s, %s)", g.name, Figure(g.judged(m)), m.Goal, met)
}

// Figure writes a number as far as it means something.
func Figure(v float64) string {
	if v == float64(int64(v)) || v >= 100 || v <= -100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
