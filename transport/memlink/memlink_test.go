package memlink_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var presence = transport.Presence{Version: "v0.0.0-test", Oldest: 1, Newest: 1}

// A network is a memlink.Network as the suite wants it.
type network struct {
	*memlink.Network
	weather memlink.Weather // while the line is healthy
	stop    context.CancelFunc
	stopped chan error
}

func (n *network) StartHub(testing.TB) transport.Hub {
	ctx, cancel := context.WithCancel(context.Background())
	h := n.Hub(presence)
	n.stop, n.stopped = cancel, make(chan error, 1)
	go func() { n.stopped <- h.Run(ctx) }()
	return h
}

func (n *network) StopHub(t testing.TB) {
	n.stop()
	if err := <-n.stopped; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func (n *network) StartAgent(_ testing.TB, agent string) transport.Dialer {
	return n.Agent(agent, presence)
}

func (n *network) Fault(_ testing.TB, agent string, f linktest.Fault) {
	w := n.weather
	switch f {
	case linktest.Cut:
		w.Line = memlink.Cut
	case linktest.BlackHole:
		w.Line = memlink.BlackHole
	case linktest.Slow:
		w.Delay += 200 * time.Millisecond
	}
	n.Set(agent, w)
}

func (n *network) Wipe(_ testing.TB, agent string, s linktest.Store) {
	n.Lose(agent, map[linktest.Store]memlink.Store{
		linktest.HubLog:    memlink.HubLog,
		linktest.AgentCopy: memlink.AgentCopy,
		linktest.AgentLog:  memlink.AgentLog,
		linktest.HubCopy:   memlink.HubCopy,
	}[s])
}

// TestConformance runs the suite in each weather that a healthy line may have, with and
// without stores that outlive the processes.
func TestConformance(t *testing.T) {
	weathers := map[string]memlink.Weather{
		"Perfect": {},
		"Poor":    {Delay: 20 * time.Millisecond, Repeat: 0.1},
	}
	kept := map[linktest.Store]bool{
		linktest.HubLog: true, linktest.AgentCopy: true, linktest.AgentLog: true, linktest.HubCopy: true,
	}
	kinds := map[string]linktest.Traits{"Durable": {Kept: kept}, "Volatile": {}}
	for kind, traits := range kinds {
		for name, w := range weathers {
			t.Run(kind+name, func(t *testing.T) {
				linktest.Run(t, linktest.Adapter{
					Traits: traits,
					Within: synctest.Test,
					New: func(*testing.T) linktest.Network {
						return &network{weather: w, Network: memlink.New(memlink.Config{Seed: 1, Keeps: traits.Kept != nil, Weather: w})}
					},
				})
			})
		}
	}
}

func TestConns(t *testing.T) {
	linktest.RunConns(t, linktest.Adapter{
		New: func(*testing.T) linktest.Network { return &network{Network: memlink.New(memlink.Config{})} },
	})
}
