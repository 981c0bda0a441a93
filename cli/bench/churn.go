package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Churn says what is measured of memory: a principal and one managed agent, whose
// Applications are created, changed and deleted all the time, must take as much of it in
// the end as soon after the beginning.
type Churn struct {
	Rate     int           // how many times a second an Application is created, changed or deleted
	Duration time.Duration // for how long
	Apps     int           // how many names of Applications there are
	Seed     uint64        // of what is done when
	Every    time.Duration // how often memory is looked at
	Agent    []string      // the command that calls RunAgent
	Log      *zap.Logger   // of the principal
}

// A Footprint is what a process takes of memory after its garbage was collected.
type Footprint struct {
	Heap       uint64 `json:"heap"` // bytes
	Goroutines int    `json:"goroutines"`
}

// A Look is one at both processes.
type Look struct {
	At        float64   `json:"at"` // seconds since the beginning
	Principal Footprint `json:"principal"`
	Agent     Footprint `json:"agent"`
}

// A ChurnResult is what was measured.
type ChurnResult struct {
	Looks    []Look    `json:"looks"`
	Measures []Measure `json:"measures"`
	OK       bool      `json:"ok"` // memory was flat, and both sides were equal in the end
	Verdict  string    `json:"verdict"`
}

// steady is by which factor memory may be more in the end: what goes beyond it grows.
const steady = 1.05

// footprint returns that of this process.
func footprint() Footprint {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Footprint{Heap: m.HeapAlloc, Goroutines: runtime.NumGoroutine()}
}

// Run measures. An error says that nothing could be measured.
func (c Churn) Run(ctx context.Context) (r ChurnResult, err error) {
	switch {
	case c.Rate < 1, c.Apps < 1, c.Every <= 0, c.Duration < 8*c.Every:
		return r, errors.New("bench: rate and applications must be above zero, and the duration at least eight looks at memory")
	case len(c.Agent) == 0, c.Log == nil:
		return r, errors.New("bench: Agent and Log are needed")
	}
	dir, err := os.MkdirTemp("", "argocd-agent-bench-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	w, err := start(ctx, dir, setting{command: c.Agent, log: c.Log, apps: c.Apps, order: order{Footprint: c.Every / 2}})
	if err != nil {
		return r, err
	}
	looks, err := c.play(w)
	equal := err == nil && c.calm(w)
	if err = errors.Join(err, w.stop()); err != nil {
		return r, err
	}
	return c.judge(looks, equal), nil
}

// play makes changes, and looks at memory from time to time.
func (c Churn) play(w *world) (looks []Look, err error) {
	random := rand.New(rand.NewPCG(c.Seed, 0))
	change := time.NewTicker(time.Second / time.Duration(c.Rate))
	defer change.Stop()
	look := time.NewTicker(c.Every)
	defer look.Stop()
	began := time.Now()
	for n := 1; time.Since(began) < c.Duration; {
		select {
		case <-change.C:
			c.change(w, random, n)
			n++
		case <-look.C:
			looks = append(looks, Look{At: time.Since(began).Seconds(), Principal: footprint(), Agent: w.applied.footprint()})
		case <-w.ctx.Done():
			return nil, context.Cause(w.ctx)
		}
	}
	return looks, nil
}

// change deletes an Application, or creates or changes it.
func (c Churn) change(w *world, random *rand.Rand, n int) {
	k := resource.Key{Kind: resource.Application, Namespace: agentName, Name: name(random.IntN(c.Apps))}
	if random.IntN(4) == 0 {
		w.hub.Delete(k)
		return
	}
	w.hub.Edit(k, func(o *resource.Object) { o.Parts[resource.Spec] = numbered(n) })
}

// calm waits until the agent has as many Applications as the hub.
func (c Churn) calm(w *world) bool {
	late := time.After(patience)
	for w.applied.count() != len(w.hub.All()) {
		select {
		case <-w.applied.more:
		case <-late:
			return false
		case <-w.ctx.Done():
			return false
		}
	}
	return true
}

// judge compares the second quarter of the time with the last.
func (c Churn) judge(looks []Look, equal bool) ChurnResult {
	r := ChurnResult{Looks: looks, OK: equal}
	quarter := len(looks) / 4
	early, late := looks[quarter:2*quarter], looks[len(looks)-quarter:]
	for _, p := range []struct {
		name string
		of   func(Look) Footprint
	}{
		{"principal", func(l Look) Footprint { return l.Principal }},
		{"agent", func(l Look) Footprint { return l.Agent }},
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
