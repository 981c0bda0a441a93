// Package bench measures the product on the machine that it runs on. Principal and agent
// are processes of their own, joined by NATS over mutual TLS on the loopback interface, as
// they are in use; memory stores stand for the clusters, and are as slow as they are told
// to be.
//
// Every change that is offered carries a number, by which what became of it is known:
// changes that were lost, done twice or done in the wrong order are counted, and a figure
// that was reached by losing some is worth nothing.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
)

// overload is by how much the second phase of a run offers more than the first, and short
// how much shorter it is.
const (
	overload = 10
	short    = 3
)

// A SlowBackend says what is measured of one managed agent whose cluster takes its time to
// write: whether it keeps up with its hub, and how much it can take.
type SlowBackend struct {
	Delay    time.Duration // that each write takes on the agent's cluster
	Rate     int           // how many changes a second are offered, spread over all Applications
	Duration time.Duration // for how long
	Apps     int           // how many Applications there are
	Seed     uint64        // of which Application is changed when
	Runs     int           // how often it is measured
	Agent    []string      // the command that calls RunAgent
	Log      *zap.Logger   // of the principal
}

// A Run is what one run has measured.
type Run struct {
	Steady   Phase `json:"steady"`   // changes are offered at the Rate
	Overload Phase `json:"overload"` // they are offered ten times as fast, for a third of the time
	// Received is how many messages about Applications the agent has got, and Unique how
	// many different ones.
	Received int `json:"received"`
	Unique   int `json:"unique"`
	// Lost is how many Applications were not in the end as they were changed last.
	Lost int `json:"lost"`
	// Repeated is how many changes were written again after they had been written, and
	// Reordered how many after a later one of the same Application.
	Repeated  int `json:"repeated"`
	Reordered int `json:"reordered"`
	// CPU is what the agent's process has used of the processors in all, in milliseconds.
	CPU float64 `json:"cpu"`
}

// Run measures. An error says that nothing could be measured.
func (c SlowBackend) Run(ctx context.Context) (Result, error) {
	switch {
	case c.Delay < 0, c.Rate < 1, c.Duration <= 0, c.Apps < 1, c.Runs < 1:
		return Result{}, errors.New("bench: rate, duration, applications and runs must be above zero, and the delay not below")
	case len(c.Agent) == 0, c.Log == nil:
		return Result{}, errors.New("bench: Agent and Log are needed")
	}
	var runs []Run
	for i := range c.Runs {
		r, err := c.once(ctx, c.Seed+uint64(i))
		if err != nil {
			return Result{}, fmt.Errorf("bench: run %d: %w", i+1, err)
		}
		runs = append(runs, r)
	}
	return sum(runs), nil
}

// once makes one run.
func (c SlowBackend) once(ctx context.Context, seed uint64) (r Run, err error) {
	dir, err := os.MkdirTemp("", "argocd-agent-bench-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	w, err := start(ctx, dir, setting{command: c.Agent, log: c.Log, apps: c.Apps, order: order{Delay: c.Delay}})
	if err != nil {
		return r, err
	}
	last, err := c.play(w, seed, &r)
	if err = errors.Join(err, w.stop()); err != nil {
		return r, err
	}
	end := w.applied.end
	r.Received, r.Unique = end.Received, end.Unique
	writes := w.applied.all()
	r.Repeated, r.Reordered = disorder(writes)
	r.CPU = millis(int64(w.agent.ProcessState.UserTime() + w.agent.ProcessState.SystemTime()))
	for app, n := range last {
		if app >= len(end.Holds) || end.Holds[app] != n {
			r.Lost++
		}
	}
	return r, nil
}

// play offers changes, and returns the number of the last of each Application.
func (c SlowBackend) play(w *world, seed uint64, r *Run) ([]int, error) {
	o := newOffer(w.hub, c.Apps, seed)
	o.all()
	if err := w.drain(o.last); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		into *Phase
		rate int
		time time.Duration
	}{{&r.Steady, c.Rate, c.Duration}, {&r.Overload, overload * c.Rate, c.Duration / short}} {
		changes, err := o.changes(w.ctx, p.rate, p.time)
		if err == nil {
			err = w.drain(o.last)
		}
		if err != nil && !errors.Is(err, errLate) { // what is late is measured, too
			return nil, err
		}
		*p.into = measure(changes, w.applied.all(), p.rate, time.Now())
	}
	return o.last, nil
}
