package redis_test

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/proxy/redis"
)

func itoa(n int) string { return strconv.Itoa(n) }

// shared returns what an agent's Argo CD has of the hub's Redis.
func shared(t *testing.T, hub, agent string, conns int, change func(*goredis.Options)) *goredis.Client {
	d, err := redis.NewConfined(redis.ConfinedConfig{Redis: redis.Server{Address: hub}, Prefix: agent + "|", Conns: conns, Log: zap.NewNop()})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	t.Cleanup(func() { stop(); serving.Wait() })
	return client(t, "confined", func(o *goredis.Options) {
		o.Dialer = func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			serving.Go(func() { d.Serve(ctx, far) })
			return near, nil
		}
		if change != nil {
			change(o)
		}
	})
}

// Two agents use the same keys and channels, and neither has anything of the other's, or of the
// hub's; whatever an agent asks besides is refused.
func TestAgentsAreApartInASharedRedis(t *testing.T) {
	hub := servers[""].Open(t, nil)
	own := client(t, hub.Address, nil)
	ctx := t.Context()
	const key, channel = "app|resources-tree|web|1.8.3.gz", "app|managed-resources|web|1.8.3"
	require.NoError(t, own.Set(ctx, key, "the hub's", time.Hour).Err())
	for _, version := range []int{2, 3} {
		agents := map[string]*goredis.Client{}
		heard := map[string]*goredis.PubSub{}
		for _, name := range []string{"edge-1", "edge-2"} {
			c := shared(t, hub.Address, name, 10, func(o *goredis.Options) { o.Protocol, o.Password = version, "any" })
			agents[name], heard[name] = c, subscribe(t, c, channel)
			require.ErrorIs(t, c.Get(ctx, key).Err(), goredis.Nil)
			require.NoError(t, c.Set(ctx, key, name, time.Hour).Err())
			require.NoError(t, c.Set(ctx, "for ever", name, 0).Err())
			require.NoError(t, c.Set(ctx, "for long", name, 1000*time.Hour).Err())
			require.True(t, c.SetNX(ctx, "lock", name, time.Minute).Val())
			require.False(t, c.SetNX(ctx, "lock", name, time.Minute).Val())
			require.NoError(t, c.Rename(ctx, "lock", "key").Err())
		}
		for name, c := range agents {
			require.Equal(t, name, c.Get(ctx, key).Val())
			require.EqualValues(t, 2, c.Exists(ctx, key, "key", "lock").Val())
			for _, k := range []string{"for ever", "for long"} {
				life := c.TTL(ctx, k).Val()
				require.Positive(t, life)
				require.LessOrEqual(t, life, 24*time.Hour)
			}
			require.EqualValues(t, 1, c.Publish(ctx, channel, name).Val())
			until(t, heard[name], channel, name)
			for _, args := range [][]any{
				{"KEYS", "*"}, {"SCAN", "0"}, {"FLUSHALL"}, {"EVAL", "return 1", "0"}, {"CONFIG", "GET", "*"}, {"MULTI"}, {"MGET", key}, {"SELECT", "1"},
				{"CLIENT", "LIST"}, {"CLIENT", "KILL", "x"}, {"MONITOR"}, {"PUBSUB", "CHANNELS"}, {"MIGRATE", "h", "1", key, "0", "1"}, {"OBJECT", "ENCODING", key}, {"DUMP", key},
			} {
				require.ErrorContains(t, c.Do(ctx, args...).Err(), "NOPERM", "%q", args)
			}
			require.Error(t, c.Do(ctx, "SET", key, "x", "GET").Err())
			require.Error(t, c.Do(ctx, "SET", key, "x", "EX", "0").Err())
			require.EqualValues(t, 4, c.Del(ctx, key, "key", "for ever", "for long").Val())
			require.NoError(t, heard[name].Close())
		}
	}
	require.Equal(t, []string{key}, own.Keys(ctx, "*").Val())
}

func TestConnectionsToASharedRedisAreBounded(t *testing.T) {
	hub := servers[""].Open(t, nil)
	c := shared(t, hub.Address, "edge-1", 1, nil)
	first := c.Conn()
	require.NoError(t, first.Ping(t.Context()).Err())
	require.Error(t, c.Ping(t.Context()).Err())
	require.NoError(t, first.Close())
}

func TestConfigsAreChecked(t *testing.T) {
	_, err := redis.New(redis.Config{})
	require.EqualError(t, err, "redis: listener, owner, opener and log are needed")
	_, err = redis.NewSpoke(redis.SpokeConfig{})
	require.EqualError(t, err, "redis: the address of the agent's Redis, what the agent has, and a log are needed")
	_, err = redis.NewConfined(redis.ConfinedConfig{Redis: redis.Server{Address: "redis:6379"}, Prefix: "a", Log: zap.NewNop()})
	require.EqualError(t, err, "redis: 0 connections")
}

// What an agent has asked and does not read takes room only until it goes.
func TestAgentsThatDoNotReadMakeRoom(t *testing.T) {
	hub := servers[""].Open(t, nil)
	d, err := redis.NewConfined(redis.ConfinedConfig{Redis: redis.Server{Address: hub.Address}, Prefix: "edge-1|", Conns: 2, Log: zap.NewNop()})
	require.NoError(t, err)
	deaf := serve(t, d.Serve)
	for range 16 {
		ask(t, deaf, "GET", "k")
	}
	other := serve(t, d.Serve)
	ask(t, other, "GET", "k")
	require.NoError(t, deaf.Close())
	answer := make([]byte, 5)
	_, err = io.ReadFull(other, answer)
	require.NoError(t, err)
	require.Equal(t, "$-1\r\n", string(answer))
}

// So does what no Redis is asked for.
func TestAgentsThatDoNotReadAreNotAnswered(t *testing.T) {
	for _, asked := range [][]string{{"UNSUBSCRIBE", "c"}, {"AUTH", "any"}, {"KEYS", "*"}} {
		synctest.Test(t, func(t *testing.T) {
			d, err := redis.NewConfined(redis.ConfinedConfig{Redis: redis.Server{Address: "nobody:1"}, Prefix: "edge-1|", Conns: 2, Log: zap.NewNop()})
			require.NoError(t, err)
			deaf, other := serve(t, d.Serve), serve(t, d.Serve)
			for range 16 {
				ask(t, deaf, asked...)
			}
			synctest.Wait()
			ask(t, other, asked...)
			heard := make(chan error, 1)
			go func() {
				_, err := other.Read(make([]byte, 1))
				heard <- err
			}()
			synctest.Wait()
			require.Empty(t, heard, "%q", asked)
			require.NoError(t, deaf.Close())
			require.NoError(t, <-heard)
		})
	}
}

// A channel is called as Argo CD's are, and what is not is kept nowhere.
func TestNamesOfChannelsAreBounded(t *testing.T) {
	d, err := redis.NewConfined(redis.ConfinedConfig{Redis: redis.Server{Address: "nobody:1"}, Prefix: "edge-1|", Conns: 1, Log: zap.NewNop()})
	require.NoError(t, err)
	c := serve(t, d.Serve)
	const want = "-ERR the name of a channel is too long\r\n"
	for _, verb := range []string{"SUBSCRIBE", "PSUBSCRIBE"} {
		ask(t, c, verb, "c", strings.Repeat("c", 1025))
		answer := make([]byte, len(want))
		_, err = io.ReadFull(c, answer)
		require.NoError(t, err)
		require.Equal(t, want, string(answer))
	}
}
