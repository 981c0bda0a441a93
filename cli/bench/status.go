package bench

import (
	"context"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// statusSize is of how many resources a status is that has some 1 KiB.
const statusSize = 6

// A StatusRun is what one run has measured of statuses on their way from agents to the hub.
type StatusRun struct {
	Events    int     `json:"events"`    // statuses that were changed, each once, in waves over all Applications
	Rate      float64 `json:"rate"`      // how many a second the hub's store has taken in
	Principal float64 `json:"principal"` // CPU of the principal's process for 1,000 of them, in milliseconds
	Agents    float64 `json:"agents"`    // the same of the agents' process
	Lost      int     `json:"lost"`      // Applications that were not in the end as they were changed last
	Repeated  int     `json:"repeated"`
	Reordered int     `json:"reordered"`
}

func statusGauges(t fleet.Carrier) []gauge[StatusRun] {
	wanted := 10_000.0
	if t == fleet.GRPC {
		wanted = 20_000
	}
	return []gauge[StatusRun]{
		{name: "statuses taken in, 1/s", of: func(r StatusRun) float64 { return r.Rate }, worse: less, goal: limit(wanted)},
		{name: "principal's CPU, ms per 1,000", of: func(r StatusRun) float64 { return r.Principal }, goal: limit(60)},
		{name: "agents' CPU, ms per 1,000", of: func(r StatusRun) float64 { return r.Agents }},
		{name: "statuses lost", of: func(r StatusRun) float64 { return float64(r.Lost) }, goal: limit(0), fatal: true},
		{name: "statuses written twice", of: func(r StatusRun) float64 { return float64(r.Repeated) }, goal: limit(0), fatal: true},
		{name: "statuses written out of order", of: func(r StatusRun) float64 { return float64(r.Reordered) }, goal: limit(0), fatal: true},
	}
}

// measureStatus changes the status of every Application once, and again once the hub has all of
// them, for as long as it is told. No status is replaced while it is under way, so that all of
// them are counted.
func measureStatus(ctx context.Context, s Settings) (Report, error) {
	return repeat(s, statusGauges(s.Transport), func(s Settings) (StatusRun, error) {
		return in(ctx, s, fleet.Order{}, func(w *world) (StatusRun, error) {
			if _, err := w.fill(); err != nil {
				return StatusRun{}, err
			}
			// The first wave is for warming up, and is as others are.
			if err := w.wave(0); err != nil {
				return StatusRun{}, err
			}
			return w.waves()
		})
	})
}

func (w *world) waves() (r StatusRun, err error) {
	before, err := w.agents.CPU()
	if err != nil {
		return r, err
	}
	own, err := fleet.CPU()
	if err != nil {
		return r, err
	}
	told, began, waves := w.hub.told(), time.Now(), 1
	for time.Since(began) < w.Duration {
		if err := w.wave(waves); err != nil {
			return r, err
		}
		waves++
	}
	took := time.Since(began)
	used, err := fleet.CPU()
	if err != nil {
		return r, err
	}
	after, err := w.agents.CPU()
	if err != nil {
		return r, err
	}
	now := w.hub.told()
	r.Events = (waves - 1) * w.Agents * w.Apps
	thousands := float64(r.Events) / 1000
	r.Rate = float64(now.written-told.written) / took.Seconds()
	r.Principal, r.Agents = millis(int64(used-own))/thousands, millis(int64(after-before))/thousands
	r.Repeated, r.Reordered = now.repeated-told.repeated, now.reordered-told.reordered
	r.Lost = missing(now.newest, w.lastOf(waves-1))
	return r, nil
}

// wave changes all statuses, for the so many-th time, and waits until the hub has them.
func (w *world) wave(i int) error {
	all := w.Agents * w.Apps
	if _, err := w.agents.Push(fleet.Push{Agents: w.Agents, Apps: w.Apps, From: 1 + i*all, Resources: statusSize}); err != nil {
		return err
	}
	return w.statuses((i + 1) * all)
}

// lastOf returns the numbers that a wave has given to Applications.
func (w *world) lastOf(wave int) []int {
	all := w.Agents * w.Apps
	last := make([]int, all)
	for i := range all {
		last[i%w.Agents*w.Apps+i/w.Agents%w.Apps] = 1 + wave*all + i
	}
	return last
}
