package bench

import (
	"context"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// flipSize is of how many resources the Application is whose health changes.
const flipSize = 20

// A WireRun is what one run has measured of bytes on the wire, both ways.
type WireRun struct {
	Idle float64 `json:"idle"` // of each agent in a minute
	Flip float64 `json:"flip"` // of each change of a status, beyond that
	Up   float64 `json:"up"`   // of which from the agent
}

func wireGauges(t fleet.Carrier) []gauge[WireRun] {
	flip, idle := limit(2700), limit(3*kib)
	switch t {
	case fleet.GRPC:
		flip = limit(450)
	case fleet.Leaf:
		idle = limit(10 * kib)
	}
	return []gauge[WireRun]{
		{name: "bytes for each change of health, 20 resources", of: func(r WireRun) float64 { return r.Flip }, goal: flip},
		{name: "of which from the agent", of: func(r WireRun) float64 { return r.Up }},
		{name: "bytes of an idle agent in a minute", of: func(r WireRun) float64 { return r.Idle }, goal: idle},
	}
}

// measureWire counts the bytes of agents with nothing to say, and then those of changes of their
// Applications' health, one at a time.
func measureWire(ctx context.Context, s Settings) (Report, error) {
	return repeat(s, wireGauges(s.Transport), func(s Settings) (WireRun, error) {
		return in(ctx, s, fleet.Order{Metered: true}, (*world).wire)
	})
}

func (w *world) wire() (r WireRun, err error) {
	if _, err := w.fill(); err != nil {
		return r, err
	}
	n := w.Agents * w.Apps
	push := fleet.Push{Agents: w.Agents, Apps: w.Apps, From: 1, Resources: flipSize}
	if _, err := w.agents.Push(push); err != nil { // the first tells all
		return r, err
	}
	if err := w.statuses(n); err != nil {
		return r, err
	}
	if err := w.pause(settling); err != nil {
		return r, err
	}
	up, down, took, err := w.crossing(func() error { return w.pause(w.Duration) })
	if err != nil {
		return r, err
	}
	r.Idle = (up + down) / float64(w.Agents) / took.Minutes()
	push.From, push.Rate, push.For = 1+n, w.Rate, w.Duration
	changes := 0
	upTo, downTo, took, err := w.crossing(func() error {
		done, err := w.agents.Push(push)
		if err != nil {
			return err
		}
		changes = done.Changes
		return w.statuses(n + changes)
	})
	if err != nil {
		return r, err
	}
	idle := func(bytes float64, before float64) float64 { return bytes - before*took.Seconds()/w.Duration.Seconds() }
	r.Up = idle(upTo, up) / float64(changes)
	r.Flip = r.Up + idle(downTo, down)/float64(changes)
	return r, nil
}

// statuses waits until the hub has taken in so many.
func (w *world) statuses(n int) error {
	return w.until("the hub to have all statuses", func() (bool, error) { return w.hub.count() >= n, nil })
}

// crossing returns how many bytes cross the line while f runs, and how long that takes.
func (w *world) crossing(f func() error) (up, down float64, took time.Duration, err error) {
	before, err := w.agents.Traffic()
	if err != nil {
		return 0, 0, 0, err
	}
	began := time.Now()
	if err := f(); err != nil {
		return 0, 0, 0, err
	}
	took = time.Since(began)
	after, err := w.agents.Traffic()
	return float64(after.Up - before.Up), float64(after.Down - before.Down), took, err
}
