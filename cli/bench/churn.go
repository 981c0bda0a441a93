package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Look is one at both processes.
type Look struct {
	At        float64         `json:"at"` // seconds since the beginning
	Principal fleet.Footprint `json:"principal"`
	Agent     fleet.Footprint `json:"agent"`
}

// steady is by which factor memory may be more in the end: what goes beyond it grows.
const steady = 1.05

// looking is how often memory is looked at, unless that is too seldom.
const looking = 10 * time.Second

// measureChurn creates, changes and deletes Applications of one agent, and looks at both
// processes meanwhile: they must take as much in the end as soon after the beginning.
func measureChurn(ctx context.Context, s Settings) (Report, error) {
	c, err := in(ctx, s, fleet.Order{}, func(w *world) (c churned, err error) {
		c.looks, err = w.churn(min(looking, s.Duration/16))
		if err == nil {
			c.equal, err = w.calm()
		}
		return c, err
	})
	if err != nil {
		return Report{}, fmt.Errorf("bench: %w", err)
	}
	return c.judge(), nil
}

// A churned is what was seen.
type churned struct {
	looks []Look
	equal bool // both sides were, in the end
}

// churn makes changes, and looks at memory from time to time.
func (w *world) churn(pause time.Duration) (looks []Look, err error) {
	random := rand.New(rand.NewPCG(uint64(w.Seed), 0))
	change := time.NewTicker(time.Second / time.Duration(w.Rate))
	defer change.Stop()
	look := time.NewTicker(pause)
	defer look.Stop()
	began := time.Now()
	for n := 1; time.Since(began) < w.Duration; {
		select {
		case <-change.C:
			w.stir(random, n)
			n++
		case <-look.C:
			l, err := w.look(time.Since(began))
			if err != nil {
				return nil, err
			}
			looks = append(looks, l)
		case <-w.ctx.Done():
			return nil, context.Cause(w.ctx)
		}
	}
	return looks, nil
}

func (w *world) look(at time.Duration) (l Look, err error) {
	l.At = at.Seconds()
	if l.Principal, err = fleet.Look(); err != nil {
		return l, err
	}
	l.Agent, err = w.agents.Look()
	return l, err
}

// stir deletes an Application, or creates or changes it.
func (w *world) stir(random *rand.Rand, n int) {
	k := hubKey(0, random.IntN(w.Apps))
	if random.IntN(4) == 0 {
		w.mem.Delete(k)
		return
	}
	w.mem.Edit(k, func(o *resource.Object) { o.Parts[resource.Spec] = fleet.Spec(n) })
}

// calm reports whether the agent comes to have as many Applications as the hub.
func (w *world) calm() (bool, error) {
	err := w.until("both sides to be equal", func() (bool, error) {
		n, err := w.agents.Objects()
		return n == len(w.mem.All()), err
	})
	return err == nil, context.Cause(w.ctx)
}

// judge compares the second quarter of the time with the last.
func (c churned) judge() Report {
	looks, equal := c.looks, c.equal
	r := Report{Runs: [][]Look{looks}, OK: equal}
	quarter := len(looks) / 4
	early, late := looks[quarter:2*quarter], looks[len(looks)-quarter:]
	for _, p := range []struct {
		name string
		of   func(Look) fleet.Footprint
	}{
		{"principal", func(l Look) fleet.Footprint { return l.Principal }},
		{"agent", func(l Look) fleet.Footprint { return l.Agent }},
	} {
		heap := func(l Look) float64 { return float64(p.of(l).Heap) / (1 << 20) }
		routines := func(l Look) float64 { return float64(p.of(l).Goroutines) }
		growth := over(late, heap) / over(early, heap)
		r.Measures = append(r.Measures,
			Measure{Name: p.name + ": heap, MiB", Median: over(late, heap), Worst: most(looks, heap), Met: true},
			Measure{Name: p.name + ": goroutines", Median: over(late, routines), Worst: most(looks, routines), Met: true},
			Measure{Name: p.name + ": heap of the last quarter ÷ second quarter", Median: growth, Worst: growth, Goal: "≤ " + Figure(steady), Met: growth <= steady},
		)
		r.OK = r.OK && growth <= steady
		r.Verdict += fmt.Sprintf("; %s's memory ×%s (goal ≤ %s)", p.name, Figure(growth), Figure(steady))
	}
	word := "memory is flat"
	switch {
	case !equal:
		word = "the two sides were NOT equal in the end"
	case !r.OK:
		word = "memory GROWS"
	}
	r.Verdict = word + r.Verdict
	return r
}

// over returns the median of looks, and most their maximum.
func over(looks []Look, of func(Look) float64) float64 {
	var values []float64
	for _, l := range looks {
		values = append(values, of(l))
	}
	return median(values)
}

func most(looks []Look, of func(Look) float64) (top float64) {
	for _, l := range looks {
		top = max(top, of(l))
	}
	return top
}
