package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// A stubborn store takes no writes while why says a reason.
type stubborn struct {
	*memstore.Store
	why atomic.Pointer[error]
}

func newStubborn(name string) *stubborn {
	return &stubborn{Store: memstore.New(memstore.Config{Name: name})}
}

func (s *stubborn) Write(ctx context.Context, o resource.Object) (resource.Object, error) {
	if why := s.why.Load(); why != nil {
		return resource.Object{}, *why
	}
	return s.Store.Write(ctx, o)
}

func (s *stubborn) Remove(ctx context.Context, k resource.Key, version string) error {
	if why := s.why.Load(); why != nil {
		return *why
	}
	return s.Store.Remove(ctx, k, version)
}

// agents are a registry that never changes.
type agents []backend.Agent

func (a agents) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	if err := f(a); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// A rig is a principal that a user asks, with agents that the test starts.
type rig struct {
	*Client
	t      *testing.T
	net    *memlink.Network
	hub    *stubborn
	server *Server
	log    *observer.ObservedLogs
}

func presence() transport.Presence {
	return transport.Presence{Version: "test", Oldest: wire.Oldest, Newest: wire.Newest}
}

// within runs f in a bubble with a principal of these agents.
func within(t *testing.T, registered agents, f func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zap.InfoLevel)
		r := &rig{t: t, net: memlink.New(memlink.Config{Keeps: true}), hub: newStubborn("hub"), log: log}
		p, err := principal.New(principal.Config{
			Namespace: "argocd",
			Identity:  "hub-1", Hub: r.net.Hub(presence()), Store: r.hub, Registry: registered, Tick: time.Second, Log: zap.NewNop(),
		})
		require.NoError(t, err)
		r.server, err = New(Config{Principal: p, Log: zap.New(core)})
		require.NoError(t, err)
		r.Client, err = NewClient("http://127.0.0.1:8404")
		require.NoError(t, err)
		r.http = &http.Client{Transport: direct{r.server.Handler()}}
		defer settle() // what crosses the network arrives
		defer r.background(p.Run)()
		synctest.Wait()
		f(t, r)
	})
}

// direct hands requests to a handler.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// background runs f until the returned function is called, which waits for it.
func (r *rig) background(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return func() {
		cancel()
		require.ErrorIs(r.t, <-ended, context.Canceled)
	}
}

// spoke starts an agent on a store of its own.
func (r *rig) spoke(name string, rules resource.Rules) (store *stubborn, stop func()) {
	store = newStubborn(name)
	return store, r.spokeOn(name, rules, store)
}

func (r *rig) spokeOn(name string, rules resource.Rules, store backend.Store) (stop func()) {
	a, err := agent.New(agent.Config{
		Name: name, Namespace: "argocd", Dialer: r.net.Agent(name, presence()), Store: store,
		Rules: rules, Tick: time.Second, Log: zap.NewNop(),
	})
	require.NoError(r.t, err)
	return r.background(a.Run)
}

// settle lets virtual time pass until nothing happens any more.
func settle() {
	<-time.After(time.Minute)
	synctest.Wait()
}

func app(ns, name string) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: ns, Name: name}
}

func edit(s *stubborn, k resource.Key, p resource.Part, text string) {
	s.Edit(k, func(o *resource.Object) { o.Parts[p] = text })
}

// spec is a spec of more than a few bytes, as real ones are.
func spec(revision string) string {
	return fmt.Sprintf(`{"destination":{"server":"https://kubernetes.default.svc"},"source":{"path":"guestbook","repoURL":"https://git.example.com/apps","targetRevision":%q}}`, revision)
}

// verdict compares an agent's two sides.
func (r *rig) verdict(name string) Verdict {
	r.t.Helper()
	v, err := r.Verify(r.t.Context(), name, 10*time.Second)
	require.NoError(r.t, err)
	return v
}
