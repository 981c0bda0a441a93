package bench

import (
	"context"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// A RestartRun is what one run has measured of a principal's return, of which nothing has
// changed meanwhile.
type RestartRun struct {
	Away    float64 `json:"away"`    // how long there was none, in seconds
	Back    float64 `json:"back"`    // from its start until all agents were in step, in seconds
	Bytes   float64 `json:"bytes"`   // on the wire for each agent, its TLS handshake too
	Lists   float64 `json:"lists"`   // that each agent has made of its cluster
	Written int     `json:"written"` // on the hub, and on spokes: nothing has changed
	CPU     float64 `json:"cpu"`     // of the principal's process until then, in milliseconds
}

func restartGauges(s Settings) []gauge[RestartRun] {
	most := 15.0
	switch {
	case s.Agents > 1000:
		most = 60
	case s.Transport == fleet.GRPC:
		most = 5
	}
	return []gauge[RestartRun]{
		{name: "start of the principal to all in step, s", of: func(r RestartRun) float64 { return r.Back }, goal: limit(most)},
		{name: "bytes on the wire for each agent, handshake and all", of: func(r RestartRun) float64 { return r.Bytes }},
		{name: "principal's CPU for each agent, ms", of: func(r RestartRun) float64 { return r.CPU / float64(s.Agents) }},
		{name: "lists of each agent's cluster", of: func(r RestartRun) float64 { return r.Lists }, goal: limit(0), fatal: true},
		{name: "writes, where nothing had changed", of: func(r RestartRun) float64 { return float64(r.Written) }, goal: limit(0), fatal: true},
	}
}

// gone is how long there is no principal.
const gone = time.Second

// measureRestart ends the principal, and starts another in its place.
func measureRestart(ctx context.Context, s Settings) (Report, error) {
	return repeat(s, restartGauges(s), func(s Settings) (RestartRun, error) {
		return in(ctx, s, fleet.Order{Metered: true, Noted: true}, (*world).restart)
	})
}

func (w *world) restart() (r RestartRun, err error) {
	if _, err := w.fill(); err != nil {
		return r, err
	}
	if _, err := w.agents.Push(fleet.Push{Agents: w.Agents, Apps: w.Apps, From: 1, Resources: statusSize}); err != nil {
		return r, err
	}
	if err := w.statuses(w.Agents * w.Apps); err != nil {
		return r, err
	}
	before, err := w.tell()
	if err != nil {
		return r, err
	}
	ended := time.Now()
	w.halt()
	if err := w.pause(gone); err != nil {
		return r, err
	}
	began := time.Now()
	if err := w.serve(); err != nil {
		return r, err
	}
	if err := w.inStep(); err != nil {
		return r, err
	}
	back := time.Now()
	after, err := w.tell()
	r.Away, r.Back = began.Sub(ended).Seconds(), back.Sub(began).Seconds()
	n := float64(w.Agents)
	r.Bytes = float64(after.traffic-before.traffic) / n
	r.Lists = float64(after.watches-before.watches) / n
	r.Written, r.CPU = after.written-before.written, millis(int64(after.cpu-before.cpu))
	return r, err
}

// A telling is how much of all had happened.
type telling struct {
	traffic int64
	watches int
	written int
	cpu     time.Duration
}

func (w *world) tell() (t telling, err error) {
	crossed, err := w.agents.Traffic()
	if err != nil {
		return t, err
	}
	n, err := w.agents.Count()
	if err != nil {
		return t, err
	}
	t.cpu, err = fleet.CPU()
	statuses := w.hub.told()
	t.traffic, t.watches = crossed.Up+crossed.Down, n.Watches
	t.written = len(w.applied.all()) + statuses.written + statuses.repeated + statuses.reordered
	return t, err
}
