package agent

import (
	"context"
	"errors"
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

func presence() transport.Presence {
	return transport.Presence{Version: "test", Oldest: wire.Oldest, Newest: wire.Newest}
}

func app(ns, name string) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: ns, Name: name}
}

func edit(s *memstore.Store, k resource.Key, p resource.Part, text string) {
	s.Edit(k, func(o *resource.Object) { o.Parts[p] = text })
}

// background runs f until the returned function is called, which waits for it.
func background(t *testing.T, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

// hub runs the principal's session with the agent "edge" on a store without namespaces.
func hub(t *testing.T, net *memlink.Network) (store *memstore.Store, stop func()) {
	h := net.Hub(presence())
	stopHub := background(t, h.Run)
	link, err := h.Link(t.Context(), "edge")
	require.NoError(t, err)
	store = memstore.New(memstore.Config{Name: "hub"})
	s, err := session.New(session.Config{
		Engine: engine.Config{Side: resource.Principal, Self: "hub-1", Peer: "edge"},
		Store:  store, Link: link, Tick: time.Second,
	})
	require.NoError(t, err)
	stopSession := background(t, s.Run)
	return store, func() {
		stopSession()
		require.NoError(t, link.Close())
		stopHub()
	}
}

func settle() {
	<-time.After(30 * time.Second) // virtual
	synctest.Wait()
}

func TestKeepsOneNamespaceInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memlink.New(memlink.Config{Keeps: true})
		cluster := memstore.New(memstore.Config{Name: "edge"})
		edit(cluster, app("elsewhere", "web"), resource.Spec, `{"mine":true}`)
		core, logged := observer.New(zap.WarnLevel)
		run := func() (*Agent, func()) {
			a, err := New(Config{
				Name: "edge", Namespace: "argocd", Dialer: net.Agent("edge", presence()), Store: cluster,
				Rules: resource.Rules{Adopt: true}, Tick: time.Second, Log: zap.New(core),
			})
			require.NoError(t, err)
			require.Error(t, a.Ready())
			require.Zero(t, a.Status())
			return a, background(t, a.Run)
		}
		principal, stopHub := hub(t, net)
		edit(principal, app("", "web"), resource.Spec, `{"n":1}`)
		a, stop := run()
		settle()
		require.NoError(t, a.Ready())
		require.True(t, a.Status().Connected)
		require.Empty(t, logged.All())
		web, ok := cluster.Get(app("argocd", "web"))
		require.True(t, ok)
		require.Equal(t, `{"n":1}`, web.Parts[resource.Spec])

		// The principal is away, and so is the agent for a while: what was heard stays in force.
		stopHub()
		edit(cluster, app("argocd", "web"), resource.Spec, `{"n":2}`)
		settle()
		require.NoError(t, a.Ready(), "a principal that is away is no reason")
		require.False(t, a.Status().Connected)
		require.Equal(t, 1, logged.FilterMessage("the principal does not answer").Len())
		web, _ = cluster.Get(app("argocd", "web"))
		require.Equal(t, `{"n":1}`, web.Parts[resource.Spec])
		stop()
		edit(cluster, app("argocd", "web"), resource.Spec, `{"n":3}`)
		a, stop = run()
		defer stop()
		settle()
		require.NoError(t, a.Ready())
		web, _ = cluster.Get(app("argocd", "web"))
		require.Equal(t, `{"n":1}`, web.Parts[resource.Spec])

		other, _ := cluster.Get(app("elsewhere", "web"))
		require.Equal(t, `{"mine":true}`, other.Parts[resource.Spec])
		require.Zero(t, other.Origin)
	})
}

func TestUserIsToldOnce(t *testing.T) {
	var w watcher
	told := func(s session.Status) (messages []string) {
		for _, n := range w.look(s) {
			messages = append(messages, n.message)
		}
		return messages
	}
	there := session.Status{Connected: true}
	require.Empty(t, told(session.Status{}), "it may be about to answer")
	require.Equal(t, []string{"the principal does not answer"}, told(session.Status{}))
	require.Empty(t, told(session.Status{}))
	require.Empty(t, told(there))
	require.Empty(t, told(session.Status{}))
	require.Equal(t, []string{"the principal does not answer"}, told(session.Status{}), "it is another time")

	held := there
	held.Engine.Held = []engine.Absent{{Key: app("", "web"), UID: "1"}}
	require.Equal(t, []string{"deletions are held"}, told(held))
	require.Empty(t, told(held))
	held.Engine.Held = append(held.Engine.Held, engine.Absent{Key: app("", "shop"), UID: "2"})
	require.Equal(t, []string{"deletions are held"}, told(held), "there are more")
	require.Empty(t, told(there))
	require.Equal(t, []string{"deletions are held"}, told(held), "it is another time")
}

// A sealed store never shows what is in it.
type sealed struct{ backend.Store }

func (sealed) Watch(ctx context.Context, _ backend.Scope, _ func(backend.Event) error) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestNotReadyBeforeTheClusterIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := New(Config{
			Name: "edge", Namespace: "argocd", Dialer: memlink.New(memlink.Config{}).Agent("edge", presence()),
			Store: sealed{memstore.New(memstore.Config{})}, Tick: time.Second, Log: zap.NewNop(),
		})
		require.NoError(t, err)
		defer background(t, a.Run)()
		settle()
		require.ErrorContains(t, a.Ready(), "have not been listed")
	})
}

type noDialer struct{}

func (noDialer) Dial(context.Context) (transport.Link, error) {
	return nil, errors.New("no such folder")
}

func TestEndsIfTheLinkCannotBeOpened(t *testing.T) {
	a, err := New(Config{
		Name: "edge", Namespace: "argocd", Dialer: noDialer{}, Store: memstore.New(memstore.Config{}), Tick: 1, Log: zap.NewNop(),
	})
	require.NoError(t, err)
	require.EqualError(t, a.Run(t.Context()), "agent: open the link to the principal: no such folder")
	require.Error(t, a.Ready())
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{
		Name: "edge", Namespace: "argocd", Dialer: noDialer{}, Store: memstore.New(memstore.Config{}), Tick: 1, Log: zap.NewNop(),
	}
	for name, spoil := range map[string]func(*Config){
		"name":      func(c *Config) { c.Name = "" },
		"namespace": func(c *Config) { c.Namespace = "" },
		"dialer":    func(c *Config) { c.Dialer = nil },
		"store":     func(c *Config) { c.Store = nil },
		"log":       func(c *Config) { c.Log = nil },
		"tick":      func(c *Config) { c.Tick = 0 },
	} {
		c := good
		spoil(&c)
		_, err := New(c)
		require.ErrorContains(t, err, name)
	}
}
