package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
)

// namespace is that of the agent, and of the Applications on its cluster.
const namespace = "argocd"

// report is how often the agent's process tells what it has written.
const report = 10 * time.Millisecond

// An order is what the agent's process is told to be: a line of JSON on its standard
// input, which stays open for as long as it is to run.
type order struct {
	Dir       string        `json:"dir"` // of certificates, and of the agent's messages
	Principal string        `json:"principal"`
	Delay     time.Duration `json:"delay"`
	// Footprint is how often the process tells what it takes of memory. Then it tells
	// nothing of what it writes, and keeps nothing to tell in the end.
	Footprint time.Duration `json:"footprint,omitempty"`
	// Live has the process serve an API server, and tell of nothing else.
	Live bool `json:"live,omitempty"`
}

// A note is what the agent's process tells: a line of JSON on its standard output.
type note struct {
	Writes []write `json:"writes,omitempty"`
	End    *end    `json:"end,omitempty"` // of the last note
	Now    *now    `json:"now,omitempty"`
	Server string  `json:"server,omitempty"` // where the API server is
}

// A now is how things stand while the agent runs.
type now struct {
	Footprint Footprint `json:"footprint"`
	Apps      int       `json:"apps"` // that its cluster has
}

// An end is how things stand when the agent has ended.
type end struct {
	Received int   `json:"received"` // messages about objects
	Unique   int   `json:"unique"`   // different ones of them
	Holds    []int `json:"holds"`    // the number that each Application carries
}

// RunAgent is the process of an agent that is measured, until in ends: it does what the
// order says that it reads from in, and writes notes to out. Nobody but SlowBackend talks
// to it.
func RunAgent(ctx context.Context, in io.Reader, out io.Writer) error {
	orders, notes := json.NewDecoder(in), json.NewEncoder(out)
	var o order
	if err := orders.Decode(&o); err != nil {
		return fmt.Errorf("bench: read what to be: %w", err)
	}
	cluster := memstore.New(memstore.Config{Name: agentName})
	if o.Footprint > 0 {
		return o.runLean(ctx, in, cluster, notes)
	}
	if o.Live {
		return o.runLive(ctx, in, cluster, notes)
	}
	store := &slowStore{Store: cluster, delay: o.Delay}
	dialer, err := o.dialer()
	if err != nil {
		return err
	}
	err = run(ctx, in, dialer, store, func(ctx context.Context) error {
		return every(ctx, report, func() error { return flush(store, notes) })
	}, nil)
	if err != nil {
		return err
	}
	if err := flush(store, notes); err != nil {
		return err
	}
	last := end{Holds: holds(cluster)}
	last.Received, last.Unique = dialer.count()
	return notes.Encode(note{End: &last})
}

func (o order) dialer() (*tap, error) {
	leaf, err := o.leaf()
	return &tap{Dialer: leaf, values: map[value]struct{}{}}, err
}

func (o order) leaf() (transport.Dialer, error) {
	own, err := throwaway.Files(o.Dir, agentName).Credentials(time.Now())
	if err != nil {
		return nil, err
	}
	return natslink.NewLeaf(natslink.LeafConfig{
		Common: common(o.Dir, agentName, zap.NewNop()), Agent: agentName, Connect: o.Principal, Credentials: own,
	})
}

// runLean runs an agent that tells what it takes of memory.
func (o order) runLean(ctx context.Context, in io.Reader, cluster *memstore.Store, notes *json.Encoder) error {
	leaf, err := o.leaf()
	if err != nil {
		return err
	}
	err = run(ctx, in, leaf, cluster, func(ctx context.Context) error {
		return every(ctx, o.Footprint, func() error {
			return notes.Encode(note{Now: &now{footprint(), len(cluster.All())}})
		})
	}, nil)
	if err != nil {
		return err
	}
	return notes.Encode(note{End: &end{}})
}

// run runs an agent, and beside it what tells of it, until in ends.
func run(ctx context.Context, in io.Reader, dialer transport.Dialer, store backend.Store, tell func(context.Context) error, services proxy.Services) error {
	a, err := agent.New(agent.Config{
		Name: agentName, Namespace: namespace, Dialer: dialer, Store: store,
		Rules: resource.Rules{Mode: resource.Managed}, Tick: tick, Services: services, Log: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		io.Copy(io.Discard, in) // however it ends, it is the end
	}()
	g, inner := errgroup.WithContext(ctx)
	g.Go(func() error { return a.Run(inner) })
	g.Go(func() error { return tell(inner) })
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// every calls f from time to time until ctx is done, and returns the cause.
func every(ctx context.Context, pause time.Duration, f func() error) error {
	look := time.NewTicker(pause)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := f(); err != nil {
			return err
		}
	}
}

func flush(s *slowStore, to *json.Encoder) error {
	writes, err := s.take()
	if err != nil || len(writes) == 0 {
		return err
	}
	return to.Encode(note{Writes: writes})
}

// holds returns the number that each Application of a cluster carries, 0 for none.
func holds(s *memstore.Store) []int {
	all := s.All()
	out := make([]int, len(all))
	for _, o := range all {
		if app, n, err := read(o); err == nil && app < len(out) {
			out[app] = n
		}
	}
	return out
}
