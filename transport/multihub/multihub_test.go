package multihub

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var presence = transport.Presence{Version: "v0.0.0-test", Oldest: 1, Newest: 1}

// A network is two memlink.Networks that one principal serves. Its agents are on the first.
type network struct {
	first, second *memlink.Network
	path          string
	stop          context.CancelFunc
	stopped       chan error
}

func newNetwork(t *testing.T, first, second memlink.Config) *network {
	return &network{first: memlink.New(first), second: memlink.New(second), path: filepath.Join(t.TempDir(), "state", "carriers.db")}
}

func (n *network) StartHub(t testing.TB) transport.Hub {
	return n.start(t, Carrier{"first", n.first.Hub(presence)}, Carrier{"second", n.second.Hub(presence)})
}

func (n *network) start(t testing.TB, carriers ...Carrier) *Hub {
	h, err := New(Config{Carriers: carriers, Path: n.path, Log: zaptest.NewLogger(t)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
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
	return n.first.Agent(agent, presence)
}

func (n *network) Fault(_ testing.TB, agent string, f linktest.Fault) {
	w := memlink.Weather{}
	switch f {
	case linktest.Cut:
		w.Line = memlink.Cut
	case linktest.BlackHole:
		w.Line = memlink.BlackHole
	}
	n.first.Set(agent, w)
}

func (n *network) Wipe(_ testing.TB, agent string, s linktest.Store) {
	n.first.Lose(agent, map[linktest.Store]memlink.Store{
		linktest.HubLog:    memlink.HubLog,
		linktest.AgentCopy: memlink.AgentCopy,
		linktest.AgentLog:  memlink.AgentLog,
		linktest.HubCopy:   memlink.HubCopy,
	}[s])
}

// TestConformance runs the suite where agents stay on one of two carriers.
func TestConformance(t *testing.T) {
	all := map[linktest.Store]bool{linktest.HubLog: true, linktest.AgentCopy: true, linktest.AgentLog: true, linktest.HubCopy: true}
	for name, keeps := range map[string]bool{"Durable": true, "Volatile": false} {
		traits := linktest.Traits{}
		if keeps {
			traits.Kept = all
		}
		t.Run(name, func(t *testing.T) {
			linktest.Run(t, linktest.Adapter{Traits: traits, Within: synctest.Test, New: func(t *testing.T) linktest.Network {
				return newNetwork(t, memlink.Config{Seed: 1, Keeps: keeps}, memlink.Config{Seed: 2, Keeps: !keeps})
			}})
		})
	}
}

// TestConns runs the suite of every net.Conn.
func TestConns(t *testing.T) {
	linktest.RunConns(t, linktest.Adapter{New: func(t *testing.T) linktest.Network {
		return newNetwork(t, memlink.Config{}, memlink.Config{})
	}})
}

func TestConfig(t *testing.T) {
	n := newNetwork(t, memlink.Config{}, memlink.Config{})
	good := Config{Carriers: []Carrier{{"first", n.first.Hub(presence)}, {"second", n.second.Hub(presence)}}, Path: n.path, Log: zaptest.NewLogger(t)}
	_, err := New(good)
	require.NoError(t, err)
	for name, spoil := range map[string]func(*Config){
		"One":      func(c *Config) { c.Carriers = c.Carriers[:1] },
		"NoPath":   func(c *Config) { c.Path = "" },
		"NoLog":    func(c *Config) { c.Log = nil },
		"Namesake": func(c *Config) { c.Carriers = []Carrier{c.Carriers[0], c.Carriers[0]} },
		"NoHub":    func(c *Config) { c.Carriers = []Carrier{c.Carriers[0], {Name: "other"}} },
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			spoil(&c)
			_, err := New(c)
			require.ErrorContains(t, err, "multihub: ")
		})
	}
}
