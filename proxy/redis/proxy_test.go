package redis_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/proxy/redis"
	"github.com/argocd-fabric/argocd-agent/transport"
)

const (
	tree    = "app|resources-tree|edge-1_web|1.8.3.gz"
	shard   = "app|resources-tree|edge-1_web|1|1.8.3.gz"
	other   = "app|resources-tree|edge-2_web|1.8.3.gz"
	channel = "app|managed-resources|edge-1_web|1.8.3"
	there   = "app|managed-resources|web|1.8.3" // the channel on the spoke
)

// A world is a hub with a proxy and two agents.
type world struct {
	hub    *real
	spokes map[string]*real
	proxy  *redis.Proxy
	at     string // the address of the proxy

	mu   sync.Mutex
	open map[string]func(context.Context) (net.Conn, error) // by agent
	live map[net.Conn]bool
}

func owner(namespace, _ string) (agent, there string, ok bool) {
	return namespace, "", namespace == "edge-1" || namespace == "edge-2"
}

func newWorld(t *testing.T, change func(*redis.Config)) *world {
	w := &world{hub: newReal(t, nil, ""), spokes: map[string]*real{}, open: map[string]func(context.Context) (net.Conn, error){}, live: map[net.Conn]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	t.Cleanup(func() { stop(); serving.Wait() })
	for _, agent := range []string{"edge-1", "edge-2"} {
		w.spokes[agent] = newReal(t, nil, agent)
		spoke, err := redis.NewSpoke(redis.SpokeConfig{
			Redis: redis.Server{Address: w.spokes[agent].address, Credentials: func(context.Context) (string, string, error) { return "", agent, nil }},
			Has:   func(namespace, name string) bool { return namespace == "" && name == "web" },
			Log:   zap.NewNop(),
		})
		require.NoError(t, err)
		w.open[agent] = func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			serving.Go(func() { spoke.Serve(ctx, far) })
			return near, nil
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.at = l.Addr().String()
	c := redis.Config{Listener: l, Hub: redis.Server{Address: w.hub.address}, Owner: owner, Open: w.stream, Timeout: time.Minute, Log: zap.NewNop()}
	if change != nil {
		change(&c)
	}
	w.proxy, err = redis.New(c)
	require.NoError(t, err)
	serving.Go(func() { _ = w.proxy.Run(ctx) })
	return w
}

func (w *world) stream(ctx context.Context, agent, service string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := w.open[agent]
	if open == nil || service != redis.Service {
		return nil, fmt.Errorf("agent %s: %w", agent, transport.ErrAway)
	}
	c, err := open(ctx)
	if err == nil {
		w.live[c] = true
	}
	return c, err
}

// set puts something in the place of an agent; nil has it be away. It returns what was there.
func (w *world) set(agent string, open func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.open[agent]
	w.open[agent] = open
	for c := range w.live {
		c.Close()
		delete(w.live, c)
	}
	return was
}

func client(t *testing.T, address string, change func(*goredis.Options)) *goredis.Client {
	o := &goredis.Options{Addr: address, MaxRetries: -1, ReadTimeout: time.Minute, DialerRetries: 1}
	if change != nil {
		change(o)
	}
	c := goredis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

// spoke is a client of an agent's own Redis.
func (w *world) spoke(t *testing.T, agent string) *goredis.Client {
	return client(t, w.spokes[agent].address, func(o *goredis.Options) { o.Password = agent })
}

// Both versions of the protocol are spoken, what is an agent's is read of it, a miss is a miss,
// and all else is the hub's.
func TestArgoCDReadsWhatAgentsHave(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	for agent, value := range map[string]string{"edge-1": "one", "edge-2": "two"} {
		require.NoError(t, w.spoke(t, agent).Set(ctx, "app|resources-tree|web|1.8.3.gz", value, time.Hour).Err())
	}
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			c := client(t, w.at, func(o *goredis.Options) { o.Protocol = version })
			require.NoError(t, c.Ping(ctx).Err())
			require.Equal(t, "one", c.Get(ctx, tree).Val())
			require.Equal(t, "two", c.Get(ctx, other).Val())
			require.ErrorIs(t, c.Get(ctx, shard).Err(), goredis.Nil)
			require.ErrorIs(t, c.Get(ctx, "app|resources-tree|edge-1_db|1.8.3.gz").Err(), goredis.Nil)
			require.EqualValues(t, 1, c.Exists(ctx, tree).Val())
			require.Positive(t, c.TTL(ctx, tree).Val())
			require.ErrorContains(t, c.Set(ctx, tree, "mine", time.Hour).Err(), "NOPERM")
			require.ErrorContains(t, c.Del(ctx, "a", tree).Err(), "NOPERM")
			require.Equal(t, "one", c.Get(ctx, tree).Val())

			require.NoError(t, c.FlushAll(ctx).Err())
			require.NoError(t, c.Set(ctx, "revoked-token|1", "", time.Hour).Err())
			require.True(t, c.SetNX(ctx, "git-refs|x", "lock", time.Minute).Val())
			require.False(t, c.SetNX(ctx, "git-refs|x", "lock", time.Minute).Val())
			require.NoError(t, c.Rename(ctx, "git-refs|x", "git-refs|y").Err())
			require.EqualError(t, c.Rename(ctx, "git-refs|x", "git-refs|y").Err(), "ERR no such key")
			keys, _, err := c.Scan(ctx, 0, "revoked-token|*", 100).Result()
			require.NoError(t, err)
			require.Equal(t, []string{"revoked-token|1"}, keys)
			require.NoError(t, c.HSet(ctx, "h", "f", "v").Err())
			require.Equal(t, map[string]string{"f": "v"}, c.HGetAll(ctx, "h").Val())
			_, err = c.TxPipelined(ctx, func(p goredis.Pipeliner) error { p.Incr(ctx, "n"); p.Incr(ctx, "n"); return nil })
			require.NoError(t, err)
			require.Equal(t, "2", c.Get(ctx, "n").Val())
		})
	}
	require.EqualValues(t, 0, w.spoke(t, "edge-1").Exists(ctx, "a").Val())
	require.Positive(t, w.proxy.Stats().Read[redis.Fresh])
	require.Positive(t, w.proxy.Stats().Read[redis.Missing])
}

// Answers come in the order of the questions, whoever gives them.
func TestPipelinesKeepTheirOrder(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	require.NoError(t, w.spoke(t, "edge-1").Set(ctx, "app|resources-tree|web|1.8.3.gz", "one", time.Hour).Err())
	require.NoError(t, w.spoke(t, "edge-2").Set(ctx, "app|resources-tree|web|1.8.3.gz", "two", time.Hour).Err())
	c := client(t, w.at, nil)
	require.NoError(t, c.Set(ctx, "own", "hub", 0).Err())
	var want, got []string
	answers, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for range 100 {
			p.Get(ctx, tree)
			p.Get(ctx, "own")
			p.Get(ctx, other)
			want = append(want, "one", "hub", "two")
		}
		return nil
	})
	require.NoError(t, err)
	for _, a := range answers {
		got = append(got, a.(*goredis.StringCmd).Val())
	}
	require.Equal(t, want, got)
}

func TestPasswordsAreChecked(t *testing.T) {
	w, ctx := newWorld(t, func(c *redis.Config) {
		c.Credentials = func(context.Context) (string, string, error) { return "", "secret", nil }
	}), t.Context()
	for _, version := range []int{2, 3} {
		get := func(user, password string) error {
			return client(t, w.at, func(o *goredis.Options) { o.Protocol, o.Username, o.Password = version, user, password }).Get(ctx, tree).Err()
		}
		require.ErrorContains(t, get("", ""), "NOAUTH")
		require.ErrorContains(t, get("", "guess"), "WRONGPASS")
		require.ErrorContains(t, get("root", "secret"), "WRONGPASS")
		require.ErrorIs(t, get("", "secret"), goredis.Nil)
		require.ErrorIs(t, get("default", "secret"), goredis.Nil)
	}
}

// What an agent has told last is shown while it is away, with its age; what it has never told is
// nil, and never an error.
func TestAgentsThatAreAwayAreAnsweredFor(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	require.NoError(t, w.spoke(t, "edge-1").Set(ctx, "app|resources-tree|web|1.8.3.gz", "one", time.Hour).Err())
	c := client(t, w.at, nil)
	require.Equal(t, "one", c.Get(ctx, tree).Val())
	was := w.set("edge-1", nil)
	require.Equal(t, "one", c.Get(ctx, tree).Val())
	require.EqualValues(t, 1, c.Exists(ctx, tree).Val())
	require.ErrorIs(t, c.Get(ctx, shard).Err(), goredis.Nil)
	s := w.proxy.Stats()
	require.Positive(t, s.Away["edge-1"])
	require.EqualValues(t, 2, s.Read[redis.Kept])
	require.EqualValues(t, 1, s.Read[redis.Unknown])

	require.NoError(t, w.spoke(t, "edge-1").Set(ctx, "app|resources-tree|web|1.8.3.gz", "newer", time.Hour).Err())
	w.set("edge-1", was)
	require.Equal(t, "newer", c.Get(ctx, tree).Val())
	require.Empty(t, w.proxy.Stats().Away)

	require.NoError(t, w.spoke(t, "edge-1").Del(ctx, "app|resources-tree|web|1.8.3.gz").Err())
	require.ErrorIs(t, c.Get(ctx, tree).Err(), goredis.Nil)
	w.set("edge-1", nil)
	require.ErrorIs(t, c.Get(ctx, tree).Err(), goredis.Nil, "it was told last that nothing is there")
}

// An agent that says nothing holds up its own answers, and nobody else's.
func TestSlowAgentsDelayNobody(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	require.NoError(t, w.spoke(t, "edge-2").Set(ctx, "app|resources-tree|web|1.8.3.gz", "two", time.Hour).Err())
	stuck := make(chan net.Conn, 1)
	w.set("edge-1", func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		stuck <- far
		return near, nil
	})
	slow := make(chan error)
	go func() { slow <- client(t, w.at, nil).Get(ctx, tree).Err() }()
	far := <-stuck // it is being asked
	require.Equal(t, "two", client(t, w.at, nil).Get(ctx, other).Val())
	require.NoError(t, far.Close())
	require.ErrorIs(t, <-slow, goredis.Nil)
}

// Whatever an agent answers, the client hears nil, and can go on.
func TestHostileAgentsAreNotBelieved(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	c := client(t, w.at, nil)
	for _, says := range []string{
		"$2147483647\r\nabc", "$9223372036854775806\r\n", "*1000000000\r\n", ":1\r\n", "+OK\r\n", "*1\r\n$1\r\na\r\n", "HTTP/1.1 400\r\n\r\n", "-ERR whatever\r\n", "$5\r\nab",
	} {
		var all sync.WaitGroup
		w.set("edge-1", func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			all.Go(func() {
				_, _ = far.Read(make([]byte, 100))
				_, _ = far.Write([]byte(says))
				_ = far.Close()
			})
			return near, nil
		})
		require.ErrorIs(t, c.Get(ctx, tree).Err(), goredis.Nil, "%q", says)
		all.Wait()
	}
	require.NoError(t, c.Set(ctx, "own", "hub", 0).Err())
}

// until reads what is said until it is that.
func until(t *testing.T, s *goredis.PubSub, channel, payload string) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for {
		m, err := s.ReceiveMessage(ctx)
		require.NoError(t, err)
		if m.Channel == channel && m.Payload == payload {
			return
		}
	}
}

func subscribe(t *testing.T, c *goredis.Client, channels ...string) *goredis.PubSub {
	s := c.Subscribe(t.Context(), channels...)
	t.Cleanup(func() { s.Close() })
	for range channels {
		_, err := s.Receive(t.Context())
		require.NoError(t, err)
	}
	return s
}

// Whoever listens to an agent's channel hears what is published there, and that there may be
// something new when the agent, or its Redis, comes back; so with the hub's own.
func TestSubscriptionsSurvive(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	const own = "app|managed-resources|own|1.8.3"
	for _, version := range []int{2, 3} {
		c := client(t, w.at, func(o *goredis.Options) { o.Protocol = version })
		s := subscribe(t, c, channel, own, "new-revoked-token")
		publish := func() {
			require.NoError(t, w.spoke(t, "edge-1").Publish(ctx, there, "").Err())
			until(t, s, channel, "")
		}
		publish()
		require.NoError(t, c.Publish(ctx, "new-revoked-token", "id").Err())
		until(t, s, "new-revoked-token", "id")
		require.NoError(t, s.Ping(ctx))

		was := w.set("edge-1", nil)
		w.set("edge-1", was)
		until(t, s, channel, "")
		publish()
		w.spokes["edge-1"].set(true)
		<-w.spokes["edge-1"].seen
		w.spokes["edge-1"].set(false)
		until(t, s, channel, "")
		publish()

		w.hub.set(true)
		<-w.hub.seen
		w.hub.set(false)
		until(t, s, own, "")
		require.NoError(t, client(t, w.hub.address, nil).Publish(ctx, "new-revoked-token", "again").Err())
		until(t, s, "new-revoked-token", "again")
		require.NoError(t, s.Unsubscribe(ctx, channel))
		require.NoError(t, s.Close())
	}
}

// A client hears at once that it listens to an agent that is away, soon enough, and that there
// is something new once the agent is there.
func TestSubscriptionsWaitForAgents(t *testing.T) {
	w := newWorld(t, nil)
	was := w.set("edge-1", nil)
	s := subscribe(t, client(t, w.at, nil), channel)
	w.set("edge-1", was)
	until(t, s, channel, "")
}

// The hub's own Redis that is away is told of, and all works once it is back.
func TestHubRedisComesBack(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	c := client(t, w.at, func(o *goredis.Options) { o.MaxRetries = 3 })
	require.NoError(t, c.Set(ctx, "own", "hub", 0).Err())
	w.hub.set(true)
	require.Error(t, client(t, w.at, nil).Get(ctx, "own").Err())
	require.ErrorIs(t, client(t, w.at, nil).Get(ctx, tree).Err(), goredis.Nil)
	w.hub.set(false)
	require.Equal(t, "hub", c.Get(ctx, "own").Val())
}

func TestTLSBothWays(t *testing.T) {
	server, trust := certificates(t)
	hub := newReal(t, server, "")
	w, ctx := newWorld(t, func(c *redis.Config) {
		c.TLS, c.Hub = server, redis.Server{Address: hub.address, TLS: trust}
	}), t.Context()
	c := client(t, w.at, func(o *goredis.Options) { o.TLSConfig = trust })
	require.NoError(t, c.Set(ctx, "own", "hub", 0).Err())
	require.ErrorIs(t, c.Get(ctx, tree).Err(), goredis.Nil)
	s := subscribe(t, c, "new-revoked-token")
	require.NoError(t, c.Publish(ctx, "new-revoked-token", "id").Err())
	until(t, s, "new-revoked-token", "id")
	stranger := client(t, w.at, func(o *goredis.Options) { o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} })
	require.ErrorContains(t, stranger.Get(ctx, tree).Err(), "certificate")
	require.Error(t, client(t, w.at, nil).Get(ctx, tree).Err())
}
