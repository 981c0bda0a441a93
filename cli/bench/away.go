package bench

import (
	"context"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// An AwayRun is what one run has measured of an agent that comes back after its hub has changed.
type AwayRun struct {
	Changes  int     `json:"changes"` // that the hub has seen meanwhile
	Deleted  int     `json:"deleted"` // Applications
	Messages int     `json:"messages"`
	Back     float64 `json:"back"` // from the start of the agent until both sides were equal, in seconds
	Lost     int     `json:"lost"` // Applications that were not in the end as they were changed last
	Missed   int     `json:"missed"`
}

func awayGauges() []gauge[AwayRun] {
	return []gauge[AwayRun]{
		{name: "changes while it was away", of: func(r AwayRun) float64 { return float64(r.Changes) }, worse: less},
		{name: "messages about Applications when it was back", of: func(r AwayRun) float64 { return float64(r.Messages) }, goal: limit(500), fatal: true},
		{name: "agent's start to equal sides, s", of: func(r AwayRun) float64 { return r.Back }, goal: limit(2)},
		{name: "Applications not as they were changed last", of: func(r AwayRun) float64 { return float64(r.Lost) }, goal: limit(0), fatal: true},
		{name: "deletions missed", of: func(r AwayRun) float64 { return float64(r.Missed) }, goal: limit(0), fatal: true},
	}
}

// measureAway ends the agent's program, changes Applications as often as it is told, deletes a
// tenth of them, and starts the agent on what it has kept.
func measureAway(ctx context.Context, s Settings) (Report, error) {
	return repeat(s, awayGauges(), func(s Settings) (AwayRun, error) {
		return in(ctx, s, fleet.Order{Noted: true}, func(w *world) (AwayRun, error) { return w.away(s.Requests) })
	})
}

func (w *world) away(changes int) (r AwayRun, err error) {
	o, err := w.fill()
	if err != nil {
		return r, err
	}
	if err := w.agents.Halt(); err != nil {
		return r, err
	}
	before, err := w.agents.Count()
	if err != nil {
		return r, err
	}
	if err := w.changeAway(o, changes, &r); err != nil {
		return r, err
	}
	began := time.Now()
	if err := w.agents.Resume(); err != nil {
		return r, err
	}
	var holds []int
	err = w.until("both sides to be equal", func() (done bool, err error) {
		holds, err = w.agents.Holds()
		return missing(holds, o.last) == 0, err
	})
	r.Back = time.Since(began).Seconds()
	for app, n := range o.last {
		switch {
		case app >= len(holds), holds[app] == n:
		case n == 0:
			r.Missed++
		default:
			r.Lost++
		}
	}
	if w.ctx.Err() != nil {
		return r, err
	}
	after, err := w.agents.Count() // what is late is measured, too
	r.Messages = after.Received - before.Received
	return r, err
}

// changeAway changes and deletes, and waits until the principal has nothing more to say.
func (w *world) changeAway(o *offer, changes int, r *AwayRun) error {
	for ; r.Changes < changes; r.Changes++ {
		if _, err := o.change(w.ctx, o.uniform()); err != nil {
			return err
		}
	}
	err := w.until("the principal to see the changes", func() (bool, error) {
		for _, n := range o.last {
			if w.hub.saw(n, time.Time{}).IsZero() {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, app := range o.random.Perm(len(o.last))[:len(o.last)/10] {
		w.mem.Delete(hubKey(0, app))
		o.last[app] = 0 // which is that of one that is not there
		r.Deleted++
	}
	return w.pause(2 * settling)
}
