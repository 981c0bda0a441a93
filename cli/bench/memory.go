package bench

import (
	"context"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

const kib, mib = 1 << 10, 1 << 20

// A MemoryRun is what one run has measured of memory, in bytes: Own is what a process takes of
// it that no file backs, and Heap what is live after its garbage was collected.
type MemoryRun struct {
	PrincipalOwn  float64 `json:"principalOwn"`  // for each agent that is idle, and connected
	PrincipalHeap float64 `json:"principalHeap"` // the same
	AgentIdle     float64 `json:"agentIdle"`     // the process of one agent, its code too
	AgentFull     float64 `json:"agentFull"`     // the same once it has all Applications
	IdleOwn       float64 `json:"idleOwn"`       // of AgentIdle what no file backs
	FullOwn       float64 `json:"fullOwn"`       // of AgentFull
}

func memoryGauges(t fleet.Carrier) []gauge[MemoryRun] {
	most := map[fleet.Carrier]float64{fleet.GRPC: 100, fleet.Client: 150, fleet.Leaf: 900}[t]
	return []gauge[MemoryRun]{
		{name: "principal's memory for each idle agent, KiB", of: func(r MemoryRun) float64 { return r.PrincipalOwn / kib }, goal: limit(most)},
		{name: "of which live after garbage collection, KiB", of: func(r MemoryRun) float64 { return r.PrincipalHeap / kib }},
		{name: "an agent's process, idle, MiB", of: func(r MemoryRun) float64 { return r.AgentIdle / mib }, goal: limit(40)},
		{name: "of which its code is not, MiB", of: func(r MemoryRun) float64 { return r.IdleOwn / mib }},
		{name: "an agent's process with all Applications, MiB", of: func(r MemoryRun) float64 { return r.AgentFull / mib }, goal: limit(120)},
		{name: "of that its code is not, MiB", of: func(r MemoryRun) float64 { return r.FullOwn / mib }},
	}
}

// settling is after what time a process that does nothing takes what it takes.
const settling = 2 * time.Second

// measureMemory has one agent connect and then all others, which have no Applications. Then
// another one, alone in its process, is given Applications.
func measureMemory(ctx context.Context, s Settings) (Report, error) {
	return repeat(s, memoryGauges(s.Transport), func(s Settings) (r MemoryRun, err error) {
		many := s
		many.Apps = 1
		r, err = in(ctx, many, fleet.Order{First: 1}, (*world).crowd)
		if err != nil {
			return r, err
		}
		one := s
		one.Agents = 1
		of, err := in(ctx, one, fleet.Order{}, (*world).alone)
		of.PrincipalOwn, of.PrincipalHeap = r.PrincipalOwn, r.PrincipalHeap
		return of, err
	})
}

// crowd measures the principal.
func (w *world) crowd() (r MemoryRun, err error) {
	look := func() (fleet.Footprint, error) {
		if err := w.inStep(); err != nil {
			return fleet.Footprint{}, err
		}
		if err := w.pause(settling); err != nil {
			return fleet.Footprint{}, err
		}
		return fleet.Look()
	}
	before, err := look()
	if err != nil {
		return r, err
	}
	w.roster.complete()
	if err := w.agents.Resume(); err != nil {
		return r, err
	}
	after, err := look()
	others := float64(w.Agents - 1)
	r.PrincipalOwn = (float64(after.Own) - float64(before.Own)) / others
	r.PrincipalHeap = (float64(after.Heap) - float64(before.Heap)) / others
	return r, err
}

// alone measures the agent.
func (w *world) alone() (r MemoryRun, err error) {
	if err := w.inStep(); err != nil {
		return r, err
	}
	if err := w.pause(settling); err != nil {
		return r, err
	}
	idle, err := w.agents.Look()
	if err != nil {
		return r, err
	}
	if _, err := w.fill(); err != nil {
		return r, err
	}
	if err := w.pause(settling); err != nil {
		return r, err
	}
	full, err := w.agents.Look()
	r.AgentIdle, r.AgentFull = float64(idle.Resident), float64(full.Resident)
	r.IdleOwn, r.FullOwn = float64(idle.Own), float64(full.Own)
	return r, err
}
