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
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
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
}

// A note is what the agent's process tells: a line of JSON on its standard output.
type note struct {
	Writes []write `json:"writes,omitempty"`
	End    *end    `json:"end,omitempty"` // of the last note
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
	store := &slowStore{Store: cluster, delay: o.Delay}
	dialer, err := o.dialer()
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Config{
		Name: agentName, Namespace: namespace, Dialer: dialer, Store: store,
		Rules: resource.Rules{Mode: resource.Managed}, Tick: tick, Log: zap.NewNop(),
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
	g.Go(func() error { return tell(inner, store, notes) })
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
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
	tls, err := files(o.Dir, agentName).Client(time.Now())
	if err != nil {
		return nil, err
	}
	leaf, err := natslink.NewLeaf(natslink.LeafConfig{
		Common: common(o.Dir, agentName, zap.NewNop()), Agent: agentName, Connect: o.Principal, TLS: tls,
	})
	return &tap{Dialer: leaf, values: map[value]struct{}{}}, err
}

// tell tells what was written, until ctx is done, and returns the cause.
func tell(ctx context.Context, s *slowStore, to *json.Encoder) error {
	look := time.NewTicker(report)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := flush(s, to); err != nil {
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
