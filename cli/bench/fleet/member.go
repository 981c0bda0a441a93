package fleet

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A member is one agent with its cluster.
type member struct {
	order    Order
	name     string
	home     string          // its namespace on the cluster
	cluster  *memstore.Store // unless it is of an API server
	store    *slowStore      // the cluster as the agent sees it
	tap      *tap
	services proxy.Services

	agent *agent.Agent       // while its program runs
	stop  context.CancelFunc // nil while it does not
	ended chan struct{}
}

// newMember returns a member whose cluster is its namespace of one that is shared, or one of its
// own if that is nil.
func newMember(o Order, i int, shared backend.Store) *member {
	m := &member{order: o, name: Name(i), home: Namespace, cluster: memstore.New(memstore.Config{Name: Name(i)})}
	m.tap = &tap{noted: o.Noted, values: map[value]struct{}{}}
	m.store = &slowStore{Store: m.cluster, delay: o.Delay, noted: o.Noted, first: i * o.Apps}
	if shared != nil {
		m.store.Store, m.home = shared, Spoke(i)
	}
	return m
}

func (m *member) key(app int) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: m.home, Name: App(app)}
}

// setStatus sets the status of an Application that is there.
func (m *member) setStatus(app int, status string) {
	m.cluster.Edit(m.key(app), func(o *resource.Object) {
		if o.UID != "" {
			o.Parts[resource.Status] = status
		}
	})
}

// start starts the program.
func (m *member) start(ctx context.Context, spawn func(func() error)) error {
	dialer, err := m.order.Carrier.dialer(m.order, m.name)
	if err != nil {
		return err
	}
	m.agent, err = agent.New(agent.Config{
		Name: m.name, Namespace: m.home, Dialer: m.tap.over(dialer), Store: m.store,
		Rules: resource.Rules{Mode: resource.Managed}, Tick: tick, Services: m.services, Log: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	m.stop, m.ended = stop, make(chan struct{})
	spawn(func() error {
		defer close(m.ended)
		if err := m.agent.Run(run); run.Err() == nil || ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("fleet: %s: %w", m.name, err)
		}
		return nil
	})
	return nil
}

// halt ends the program.
func (m *member) halt() {
	m.stop()
	<-m.ended
	m.stop = nil
}
