package command

import (
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/proxy/redis"
	"github.com/argocd-fabric/argocd-agent/proxy/redis/redistest"
	"github.com/argocd-fabric/argocd-agent/proxy/share"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// oneAgent is a registry of one managed agent.
type oneAgent string

func (a oneAgent) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	if err := f([]backend.Agent{{Name: string(a)}}); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// A live is a hub and a spoke that are joined as the programs join them, each with its Redis.
type live struct {
	hub, spoke           *redistest.Way
	hubStore, spokeStore *memstore.Store
	proxy                *redis.Proxy
	doors                map[string]string // by service
	net                  *memlink.Network
}

func newLive(t *testing.T, destination bool, repoServer string) *live {
	server := func(password string) *redistest.Server {
		s, err := redistest.Start(password)
		require.NoError(t, err)
		t.Cleanup(s.Stop)
		return s
	}
	l := &live{
		hub: server("hub").Open(t, nil), spoke: server("spoke").Open(t, nil), doors: map[string]string{}, net: memlink.New(memlink.Config{Keeps: true}),
		hubStore: memstore.New(memstore.Config{Name: "hub"}), spokeStore: memstore.New(memstore.Config{Name: "spoke"}),
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	run := func(part func(context.Context) error) { running.Go(func() { _ = part(ctx) }) }
	presence := transport.Presence{Version: "test", Oldest: wire.Oldest, Newest: wire.Newest}
	own := redis.Server{Address: l.hub.Address, Credentials: redisCredentials("", "", "hub")}

	hub, err := principal.New(principal.Config{
		Identity: "hub-1", Namespace: "argocd", Destination: destination, Allowed: []string{"team-*"}, Hub: l.net.Hub(presence), Store: l.hubStore,
		Registry: oneAgent("edge-1"), Tick: time.Second, Log: zap.NewNop(), Services: sharing{repoServer, own, zap.NewNop()}.services,
	})
	require.NoError(t, err)
	l.proxy, err = redisProxy{listen: "127.0.0.1:0", hub: own}.open(ctx, hub, "argocd", zap.NewNop())
	require.NoError(t, err)
	run(hub.Run)
	run(l.proxy.Run)

	place := agent.Placement{Namespace: "argocd-spoke", Destination: destination, Allowed: []string{"team-*"}}
	services, followed, err := serveRedis(redis.Server{Address: l.spoke.Address, Credentials: redisCredentials("", "", "spoke")}, place, l.spokeStore, zap.NewNop())
	require.NoError(t, err)
	spoke, err := agent.New(agent.Config{
		Name: "edge-1", Namespace: place.Namespace, Destination: place.Destination, Allowed: place.Allowed, Dialer: l.net.Agent("edge-1", presence),
		Store: l.spokeStore, Services: services, Tick: time.Second, Log: zap.NewNop(),
	})
	require.NoError(t, err)
	run(followed)
	run(spoke.Run)
	for _, service := range []string{share.RepoServer, share.Redis} {
		at, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		door, err := share.NewDoor(share.DoorConfig{Listener: at, Service: service, Open: spoke.Open, Log: zap.NewNop()})
		require.NoError(t, err)
		l.doors[service] = at.Addr().String()
		run(door.Run)
	}
	return l
}

func redisClient(t *testing.T, address, password string) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: address, Password: password, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { c.Close() })
	return c
}

// reads reads a key until it has a value.
func reads(t *testing.T, c *goredis.Client, key, value string) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for c.Get(ctx, key).Val() != value {
		require.NoError(t, ctx.Err(), "%s is not %q", key, value)
	}
}

// The hub's Argo CD reads what Argo CD on a spoke keeps, hears of changes, and is shown what
// there was while the agent is away; all by the one connection of the agent.
func TestRedisFromEndToEnd(t *testing.T) {
	for name, c := range map[string]struct {
		destination bool
		app         resource.Key // on the hub
		hub, spoke  string       // what it is called in either Redis
	}{
		"namespace":                           {false, resource.Key{Kind: resource.Application, Namespace: "edge-1", Name: "web"}, "edge-1_web", "web"},
		"destination":                         {true, resource.Key{Kind: resource.Application, Namespace: "team-a", Name: "web"}, "team-a_web", "team-a_web"},
		"destination, in Argo CD's namespace": {true, resource.Key{Kind: resource.Application, Namespace: "argocd", Name: "web"}, "web", "web"},
	} {
		t.Run(name, func(t *testing.T) {
			l, ctx := newLive(t, c.destination, "127.0.0.1:1"), t.Context()
			spoke, argocd := redisClient(t, l.spoke.Address, "spoke"), redisClient(t, l.proxy.Addr().String(), "hub")
			tree, theirs := "app|resources-tree|"+c.hub+"|1.8.3.gz", "app|resources-tree|"+c.spoke+"|1.8.3.gz"
			require.NoError(t, spoke.Set(ctx, theirs, "one", time.Hour).Err())
			require.ErrorIs(t, argocd.Get(ctx, tree).Err(), goredis.Nil, "the agent has no such Application")
			l.hubStore.Edit(c.app, func(o *resource.Object) {
				o.Parts[resource.Spec] = `{"destination":{"name":"edge-1","namespace":"web"},"project":"default"}`
			})
			reads(t, argocd, tree, "one")
			require.ErrorIs(t, argocd.Get(ctx, "app|resources-tree|"+c.hub+"|1|1.8.3.gz").Err(), goredis.Nil)

			changes := argocd.Subscribe(ctx, "app|managed-resources|"+c.hub+"|1.8.3")
			defer changes.Close()
			_, err := changes.Receive(ctx)
			require.NoError(t, err)
			require.NoError(t, spoke.Set(ctx, theirs, "two", time.Hour).Err())
			require.NoError(t, spoke.Publish(ctx, "app|managed-resources|"+c.spoke+"|1.8.3", "").Err())
			_, err = changes.ReceiveMessage(ctx)
			require.NoError(t, err)
			require.Equal(t, "two", argocd.Get(ctx, tree).Val())

			l.net.Set("edge-1", memlink.Weather{Line: memlink.Cut})
			require.Equal(t, "two", argocd.Get(ctx, tree).Val())
			require.Contains(t, l.proxy.Stats().Away, "edge-1")
			require.NoError(t, spoke.Set(ctx, theirs, "three", time.Hour).Err())
			l.net.Set("edge-1", memlink.Weather{})
			_, err = changes.ReceiveMessage(ctx)
			require.NoError(t, err)
			reads(t, argocd, tree, "three")
			require.NoError(t, argocd.Set(ctx, "own", "hub", time.Hour).Err())
			require.Zero(t, spoke.Exists(ctx, "own").Val())
		})
	}
}

// A spoke's Argo CD uses the hub's servers, by the one connection of its agent.
func TestSharedServersFromEndToEnd(t *testing.T) {
	repo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := repo.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { _, _ = io.Copy(c, c); _ = c.Close() })
		}
	})
	t.Cleanup(func() { repo.Close(); serving.Wait() })
	l, ctx := newLive(t, false, repo.Addr().String()), t.Context()

	argocd := redisClient(t, l.doors[share.Redis], "any")
	deadline, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for argocd.Set(ctx, "k", "v", time.Hour).Err() != nil { // until the agent is connected
		require.NoError(t, deadline.Err())
	}
	require.Equal(t, "v", argocd.Get(ctx, "k").Val())
	require.Equal(t, []string{"argocd-agent|edge-1|k"}, redisClient(t, l.hub.Address, "hub").Keys(ctx, "*").Val())

	c, err := net.Dial("tcp", l.doors[share.RepoServer])
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("manifests, please"))
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "manifests, please", string(answer))
}

// A certificate that is replaced is used at once, and one that is being replaced stays in force
// until all of the next is there.
func TestCertificatesOfTheRedisProxyAreReplaced(t *testing.T) {
	o := pki.Options{Now: time.Now(), Lifetime: time.Hour}
	ca, err := pki.NewCA("Redis", o)
	require.NoError(t, err)
	dir := t.TempDir()
	kept := &keptPair{cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	_, err = kept.get(nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	var last []byte
	for range 2 {
		issued, err := ca.IssueServer("redis", []string{"127.0.0.1"}, o)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(kept.cert, issued.Cert, 0o600))
		if last != nil {
			is, err := kept.get(nil)
			require.NoError(t, err)
			require.Equal(t, last, is.Certificate[0])
		}
		require.NoError(t, os.WriteFile(kept.key, issued.Key, 0o600))
		is, err := kept.get(nil)
		require.NoError(t, err)
		require.NotEqual(t, last, is.Certificate[0])
		last = is.Certificate[0]
	}
}

// Only what the agent has, and tells of, may be read.
func TestRosterKnowsWhatTheAgentHas(t *testing.T) {
	store := memstore.New(memstore.Config{Name: "spoke"})
	r := &roster{place: agent.Placement{Namespace: "argocd", Destination: true, Allowed: []string{"team-*"}}, store: store, log: zap.NewNop()}
	_, err := r.has("", "web")
	require.Error(t, err, "nobody knows yet")
	has := func(namespace, name string) bool {
		ok, err := r.has(namespace, name)
		require.NoError(t, err)
		return ok
	}
	put := func(namespace string, excluded bool) backend.Event {
		return backend.Event{Put: &resource.Object{Key: resource.Key{Kind: resource.Application, Namespace: namespace, Name: "web"}, Excluded: excluded}}
	}
	listed := map[resource.Key]bool{}
	for _, e := range []backend.Event{put("argocd", false), put("team-a", false), put("team-b", true), put("other", false)} {
		listed = r.note(e, listed)
	}
	require.Nil(t, r.note(backend.Event{Synced: &backend.Synced{}}, listed))
	for namespace, want := range map[string]bool{"": true, "argocd": false, "team-a": true, "team-b": false, "other": false, "team-c": false} {
		require.Equal(t, want, has(namespace, "web"), namespace)
	}
	require.False(t, has("", "db"))
	r.note(backend.Event{Gone: &backend.Gone{Key: resource.Key{Kind: resource.Application, Namespace: "argocd", Name: "web"}}}, nil)
	r.note(put("team-a", true), nil)
	require.False(t, has("", "web"))
	require.False(t, has("team-a", "web"))
}
