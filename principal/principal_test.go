package principal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// A roll is a registry that the test calls.
type roll chan []backend.Agent

func (r roll) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	for {
		select {
		case set := <-r:
			if err := f(set); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A field is a principal with the spokes that the test gives it.
type field struct {
	*Principal
	t     *testing.T
	net   *memlink.Network
	store *memstore.Store
	roll  roll
	stop  context.CancelFunc
	ended chan error
}

func presence() transport.Presence {
	return transport.Presence{Version: "test", Oldest: wire.Oldest, Newest: wire.Newest}
}

// start runs a principal in the bubble, over a hub that wrap may change.
func start(t *testing.T, wrap func(transport.Hub) transport.Hub) *field {
	return startWith(t, zap.NewNop(), wrap)
}

func startWith(t *testing.T, log *zap.Logger, wrap func(transport.Hub) transport.Hub) *field {
	f := &field{
		t: t, net: memlink.New(memlink.Config{Keeps: true}), store: memstore.New(memstore.Config{Name: "hub"}),
		roll: make(roll), ended: make(chan error, 1),
	}
	var hub transport.Hub = f.net.Hub(presence())
	if wrap != nil {
		hub = wrap(hub)
	}
	var err error
	f.Principal, err = New(Config{Identity: "hub-1", Namespace: "argocd", Hub: hub, Store: f.store, Registry: f.roll, Tick: time.Second, Log: log})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	f.stop = stop
	go func() { f.ended <- f.Run(ctx) }()
	return f
}

// end stops the principal and waits for it.
func (f *field) end() {
	f.stop()
	require.ErrorIs(f.t, <-f.ended, context.Canceled)
}

// spoke runs an agent's session on a store of its own until the returned function is
// called.
func (f *field) spoke(name string, m resource.Mode) (store *memstore.Store, stop func()) {
	link, err := f.net.Agent(name, presence()).Dial(f.t.Context())
	require.NoError(f.t, err)
	store = memstore.New(memstore.Config{Name: name})
	s, err := session.New(session.Config{
		Engine: engine.Config{Side: resource.Agent, Rules: resource.Rules{Mode: m}, Self: name},
		Store:  store, Link: link, Tick: time.Second,
	})
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		_ = s.Run(ctx) // it ends when it is told to, or when its hub forgets it
	})
	return store, func() {
		cancel()
		running.Wait()
		require.NoError(f.t, link.Close())
	}
}

// settle lets virtual time pass until nothing happens any more.
func (f *field) settle() {
	<-time.After(30 * time.Second)
	synctest.Wait()
}

func app(ns, name string) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: ns, Name: name}
}

func edit(s *memstore.Store, k resource.Key, p resource.Part, text string) {
	s.Edit(k, func(o *resource.Object) { o.Parts[p] = text })
}

func TestServesManagedAndAutonomousAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		defer f.end()
		require.ErrorContains(t, f.Ready(), "has not been listed")
		f.roll <- []backend.Agent{{Name: "auto", Mode: resource.Autonomous}, {Name: "one"}, {Name: "two"}}
		auto, stopAuto := f.spoke("auto", resource.Autonomous)
		defer stopAuto()
		one, stopOne := f.spoke("one", resource.Managed)
		defer stopOne()
		edit(f.store, app("one", "web"), resource.Spec, `{"destination":{"name":"one","namespace":"web"},"project":"default"}`)
		edit(f.store, app("argocd", "hubs-own"), resource.Spec, `{}`)
		edit(auto, app("", "line"), resource.Spec, `{"destination":{"server":"https://kubernetes.default.svc"},"project":"plant"}`)
		f.settle()

		require.NoError(t, f.Ready())
		got, ok := one.Get(app("", "web"))
		require.True(t, ok)
		require.Equal(t, `{"destination":{"namespace":"web","server":"https://kubernetes.default.svc"},"project":"default"}`, got.Parts[resource.Spec])
		require.Len(t, one.All(), 1)
		require.Equal(t, "hub-1", got.Origin.By)

		line, ok := f.store.Get(app("auto", "line"))
		require.True(t, ok)
		require.Equal(t, `{"destination":{"name":"auto"},"project":"auto-plant"}`, line.Parts[resource.Spec])
		original, _ := auto.Get(app("", "line"))
		require.Equal(t, resource.Origin{UID: original.UID, By: "auto"}, line.Origin)

		// Status comes back, and leaves the hub's own destination as it is.
		edit(one, app("", "web"), resource.Status, `{"health":{"status":"Healthy"}}`)
		f.settle()
		web, _ := f.store.Get(app("one", "web"))
		require.Equal(t, `{"health":{"status":"Healthy"}}`, web.Parts[resource.Status])
		require.Equal(t, `{"destination":{"name":"one","namespace":"web"},"project":"default"}`, web.Parts[resource.Spec])

		// What a user does to the hub's copy of an autonomous agent's object is undone.
		edit(f.store, app("auto", "line"), resource.Spec, `{"project":"auto-other"}`)
		f.settle()
		again, _ := f.store.Get(app("auto", "line"))
		require.Equal(t, line.Parts, again.Parts)

		before, _ := f.store.Get(app("auto", "line"))
		f.settle()
		after, _ := f.store.Get(app("auto", "line"))
		require.Equal(t, before, after, "silence")

		agents := f.Agents()
		require.Len(t, agents, 3)
		for i, want := range []string{"auto", "one", "two"} {
			require.Equal(t, want, agents[i].Name)
			require.Equal(t, Serving, agents[i].State)
			require.Equal(t, want != "two", agents[i].Session.Connected)
		}
		require.True(t, agents[0].Session.Engine.InStep)
		require.Equal(t, resource.Autonomous, agents[0].Mode)
	})
}

func TestAgentsLeaveAndComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		defer f.end()
		f.roll <- []backend.Agent{{Name: "one"}, {Name: "two"}}
		one, stopOne := f.spoke("one", resource.Managed)
		defer stopOne()
		two, stopTwo := f.spoke("two", resource.Managed)
		for _, agent := range []string{"one", "two"} {
			edit(f.store, app(agent, "web"), resource.Spec, `{"destination":{"server":"x"}}`)
		}
		f.settle()
		require.Len(t, two.All(), 1)

		f.roll <- []backend.Agent{{Name: "one"}}
		f.settle()
		require.Len(t, f.Agents(), 1, "nothing is kept of one that left")
		require.Len(t, two.All(), 1, "an agent that left keeps what it has")
		stopTwo()
		edit(f.store, app("one", "more"), resource.Spec, `{"destination":{"server":"x"}}`)
		f.settle()
		require.Len(t, one.All(), 2, "others do not notice")

		f.roll <- []backend.Agent{{Name: "one"}, {Name: "two", Mode: resource.Autonomous}}
		two, stopTwo = f.spoke("two", resource.Autonomous)
		defer func() { stopTwo() }()
		edit(two, app("", "own"), resource.Spec, `{"destination":{"server":"x"}}`)
		f.settle()
		_, ok := f.store.Get(app("two", "own"))
		require.True(t, ok)
		require.Len(t, two.All(), 1, "an autonomous agent is sent nothing")

		// Its mode changes while it is there: the session is another one.
		f.roll <- []backend.Agent{{Name: "one"}, {Name: "two", Mode: resource.Managed}}
		f.settle()
		stopTwo()
		two, stopTwo = f.spoke("two", resource.Managed)
		f.settle()
		require.Equal(t, resource.Managed, f.Agents()[1].Mode)
		_, ok = two.Get(app("", "web"))
		require.True(t, ok)
	})
}

// A shaky hub has links that cannot be opened, and does not forget at once.
type shaky struct {
	transport.Hub
	mu                sync.Mutex
	links, forgetting map[string]int // how often it fails, by agent
}

func (s *shaky) fails(times map[string]int, agent string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if times[agent] == 0 {
		return nil
	}
	times[agent]--
	return errors.New("disk is full")
}

func (s *shaky) Link(ctx context.Context, agent string) (transport.Link, error) {
	if err := s.fails(s.links, agent); err != nil {
		return nil, err
	}
	return s.Hub.Link(ctx, agent)
}

func (s *shaky) Forget(ctx context.Context, agent string) error {
	if err := s.fails(s.forgetting, agent); err != nil {
		return err
	}
	return s.Hub.Forget(ctx, agent)
}

// A hub that has lost everything deletes nothing, and says so.
func TestTellsOfDeletionsThatAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.WarnLevel)
		f := startWith(t, zap.New(core), nil)
		defer f.end()
		f.roll <- []backend.Agent{{Name: "one"}}
		one, stop := f.spoke("one", resource.Managed)
		defer stop()
		for i := range 10 {
			edit(f.store, app("one", fmt.Sprint("web-", i)), resource.Spec, `{}`)
		}
		f.settle()
		require.Len(t, one.All(), 10)
		require.Empty(t, logged.All())

		for k := range f.store.All() {
			f.store.Lose(k)
		}
		f.settle()
		f.settle()
		require.Len(t, one.All(), 10)
		told := logged.FilterMessage("an agent holds deletions").All()
		require.Len(t, told, 1)
		require.Equal(t, int64(10), told[0].ContextMap()["copies"])
		require.Equal(t, "one", told[0].ContextMap()["agent"])
	})
}

func TestOneAgentsFailureIsNobodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := &shaky{links: map[string]int{"bad": 8}, forgetting: map[string]int{"bad": 6}}
		f := start(t, func(h transport.Hub) transport.Hub { hub.Hub = h; return hub })
		defer f.end()
		f.roll <- []backend.Agent{{Name: "bad"}, {Name: "good"}}
		f.settle()
		agents := f.Agents()
		require.Equal(t, Failing, agents[0].State)
		require.ErrorContains(t, agents[0].Err, "disk is full")
		require.Equal(t, Serving, agents[1].State)
		require.NoError(t, f.Ready(), "the others are served")

		<-time.After(5 * time.Minute) // eight pauses, of up to a minute
		require.Equal(t, Serving, f.Agents()[0].State)
		require.NoError(t, f.Agents()[0].Err)

		f.roll <- []backend.Agent{{Name: "good"}}
		f.settle()
		require.Equal(t, Leaving, f.Agents()[0].State)
		require.ErrorContains(t, f.Agents()[0].Err, "disk is full")
		f.roll <- []backend.Agent{{Name: "bad"}, {Name: "good"}}
		f.settle()
		require.Equal(t, Serving, f.Agents()[0].State, "it came back before it was forgotten")
		f.roll <- []backend.Agent{{Name: "good"}}
		<-time.After(5 * time.Minute)
		synctest.Wait()
		require.Len(t, f.Agents(), 1)
	})
}

// A sealed store never shows what is in it.
type sealed struct{ backend.Store }

func (sealed) Watch(ctx context.Context, _ backend.Scope, _ func(backend.Event) error) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestNotReadyBeforeTheHubIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roll, ended := make(roll), make(chan error, 1)
		p, err := New(Config{
			Identity: "hub-1", Namespace: "argocd", Hub: memlink.New(memlink.Config{}).Hub(presence()), Store: sealed{memstore.New(memstore.Config{})},
			Registry: roll, Tick: time.Second, Log: zap.NewNop(),
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		go func() { ended <- p.Run(ctx) }()
		roll <- nil
		synctest.Wait()
		require.NoError(t, p.Ready(), "there is nobody to serve")
		roll <- []backend.Agent{{Name: "one"}}
		<-time.After(time.Minute)
		require.ErrorContains(t, p.Ready(), "agent one is being admitted")
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestEndsWithItsHubOrRegistry(t *testing.T) {
	for name, c := range map[string]Config{
		"hub":      {Registry: make(roll), Hub: broken{}},
		"registry": {Registry: broken{}, Hub: memlink.New(memlink.Config{}).Hub(presence())},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.Namespace = "argocd"
				c.Identity, c.Store, c.Tick, c.Log = "hub-1", memstore.New(memstore.Config{}), time.Second, zap.NewNop()
				p, err := New(c)
				require.NoError(t, err)
				require.ErrorContains(t, p.Run(t.Context()), "out of order")
			})
		})
	}
}

type broken struct{ transport.Hub }

func (broken) Run(context.Context) error { return errors.New("out of order") }

func (broken) Watch(context.Context, func([]backend.Agent) error) error {
	return errors.New("out of order")
}

func TestAgentWritesUnderItsOwnKeysOnly(t *testing.T) {
	hub := memstore.New(memstore.Config{})
	v := Placement{Agent: "edge-1", Namespace: "argocd"}.view(hub, func() {})
	for _, k := range []resource.Key{app("edge-2", "web"), app("argocd", "web"), app("edge-1", "web"), app("", "")} {
		_, err := v.Write(t.Context(), resource.Object{Key: k})
		require.ErrorIs(t, err, backend.ErrRefused)
	}
	require.Empty(t, hub.All())
	o := resource.Object{Key: app("", "web")}
	o.Parts[resource.Spec] = `{}`
	_, err := v.Write(t.Context(), o)
	require.NoError(t, err)
	require.Contains(t, hub.All(), app("edge-1", "web"))
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{
		Identity: "hub-1", Namespace: "argocd", Hub: broken{}, Registry: broken{}, Store: memstore.New(memstore.Config{}), Tick: 1, Log: zap.NewNop(),
	}
	_, err := New(good)
	require.NoError(t, err)
	for name, spoil := range map[string]func(*Config){
		"identity":  func(c *Config) { c.Identity = "" },
		"namespace": func(c *Config) { c.Namespace = "" },
		"hub":       func(c *Config) { c.Hub = nil },
		"store":     func(c *Config) { c.Store = nil },
		"registry":  func(c *Config) { c.Registry = nil },
		"log":       func(c *Config) { c.Log = nil },
		"tick":      func(c *Config) { c.Tick = 0 },
	} {
		c := good
		spoil(&c)
		_, err := New(c)
		require.ErrorContains(t, err, name)
	}
}
