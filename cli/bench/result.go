package bench

import (
	"fmt"
	"slices"
	"strings"
)

// A Report is what several runs of a Row have measured.
type Report struct {
	Row      string    `json:"row"`
	Runs     any       `json:"runs"` // what each has, with figures that are no Measure
	Measures []Measure `json:"measures"`
	OK       bool      `json:"ok"`      // nothing was lost or done twice, and no firm promise broken; a goal for time may be missed
	Verdict  string    `json:"verdict"` // in one line, with the goals
}

// repeat makes as many runs as are wanted, each with another seed, and judges them.
func repeat[R any](s Settings, gauges []gauge[R], once func(Settings) (R, error)) (Report, error) {
	var runs []R
	for i := range s.Runs {
		of := s
		of.Seed += i
		r, err := once(of)
		if err != nil {
			return Report{}, fmt.Errorf("bench: run %d: %w", i+1, err)
		}
		runs = append(runs, r)
	}
	r := Report{Runs: runs}
	r.Measures, r.Verdict, r.OK = judge(gauges, runs)
	return r, nil
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
