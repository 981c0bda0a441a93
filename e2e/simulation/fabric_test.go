package simulation

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// A fabric is a transport to be simulated on.
type fabric struct {
	name string
	// network returns healthy lines and empty stores, as linktest.Adapter.New does, for
	// processes that speak these versions.
	network func(*testing.T, speeches) linktest.Network
	// within calls play once, in the time of the fabric: synctest.Test, or linktest.Plainly.
	within func(t *testing.T, play func(t *testing.T))
	// keeps says that logs and copies outlive the processes.
	keeps bool
	// virtual says that time costs nothing.
	virtual bool
	// wipesStopped says that a store can only be wiped while its process does not run.
	wipesStopped bool
	// tick is that of every session; patience is how long agreement may take once all is
	// healed, and quiet how long silence must last.
	tick, patience, quiet time.Duration
}

// fabrics are all that the stories are played on.
var fabrics = []fabric{
	inMemory("durable", true, memlink.Weather{}),
	inMemory("volatile", false, memlink.Weather{}),
	inMemory("poor", true, memlink.Weather{Delay: 50 * time.Millisecond, Repeat: 0.1}),
	overNATS(),
}

// play tells a story on every fabric, while others are told.
func play(t *testing.T, story func(t *testing.T, f fabric)) {
	t.Parallel()
	playOn(t, fabrics, story)
}

// playOnEach tells a story that is about the transport on one fabric of each. They are of much
// load, and no others are told meanwhile.
func playOnEach(t *testing.T, story func(t *testing.T, f fabric)) {
	playOn(t, []fabric{inMemory("durable", true, memlink.Weather{}), overNATS(), overGRPC()}, story)
}

func playOn(t *testing.T, fabrics []fabric, story func(t *testing.T, f fabric)) {
	for _, f := range fabrics {
		t.Run(f.name, func(t *testing.T) {
			f.within(t, func(t *testing.T) { story(t, f) })
		})
	}
}

// inMemory is the fabric of memlink, whose healthy lines have this weather.
func inMemory(name string, keeps bool, w memlink.Weather) fabric {
	return fabric{
		name:    name,
		within:  synctest.Test,
		keeps:   keeps,
		virtual: true,
		network: func(_ *testing.T, s speeches) linktest.Network {
			return &memory{Network: memlink.New(memlink.Config{Seed: 1, Keeps: keeps, Weather: w}), healthy: w, speeches: s}
		},
		tick: 2 * time.Second, patience: 5 * time.Minute, quiet: 30 * time.Second,
	}
}

// speeches are the protocol versions that the next process of each program speaks, where they
// are not all that there are: by the agent's name, or hub.
type speeches map[string]wire.Range

// hub is the principal's name among those of programs.
const hub = "hub"

// of returns what a program speaks.
func (s speeches) of(program string) wire.Range { return cmp.Or(s[program], wire.Spoken()) }

func (s speeches) presence(program string) transport.Presence {
	return transport.Presence{Version: "simulation", Oldest: s.of(program).Oldest, Newest: s.of(program).Newest}
}

// memory is a memlink.Network as linktest.Network.
type memory struct {
	*memlink.Network
	speeches
	healthy memlink.Weather
	stop    context.CancelFunc
	ended   chan error
}

func (m *memory) StartHub(testing.TB) transport.Hub {
	ctx, cancel := context.WithCancel(context.Background())
	h := m.Hub(m.presence(hub))
	m.stop, m.ended = cancel, make(chan error, 1)
	go func() { m.ended <- h.Run(ctx) }()
	return h
}

func (m *memory) StopHub(t testing.TB) {
	m.stop()
	if err := <-m.ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func (m *memory) StartAgent(_ testing.TB, agent string) transport.Dialer {
	return m.Agent(agent, m.presence(agent))
}

func (m *memory) Fault(_ testing.TB, agent string, f linktest.Fault) {
	w := m.healthy
	switch f {
	case linktest.Cut:
		w.Line = memlink.Cut
	case linktest.BlackHole:
		w.Line = memlink.BlackHole
	case linktest.Slow:
		w.Delay += 200 * time.Millisecond
	}
	m.Set(agent, w)
}

func (m *memory) Wipe(_ testing.TB, agent string, s linktest.Store) {
	m.Lose(agent, map[linktest.Store]memlink.Store{
		linktest.HubLog:    memlink.HubLog,
		linktest.AgentCopy: memlink.AgentCopy,
		linktest.AgentLog:  memlink.AgentLog,
		linktest.HubCopy:   memlink.HubCopy,
	}[s])
}
