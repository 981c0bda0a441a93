package redis_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/proxy/redis"
)

// serve has a service take one stream, and returns the other end of it.
func serve(t *testing.T, service func(context.Context, net.Conn)) net.Conn {
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { service(t.Context(), far) })
	t.Cleanup(func() { near.Close(); serving.Wait() })
	return near
}

func ask(t *testing.T, c net.Conn, args ...string) {
	var b strings.Builder
	b.WriteString("*" + itoa(len(args)) + "\r\n")
	for _, a := range args {
		b.WriteString("$" + itoa(len(a)) + "\r\n" + a + "\r\n")
	}
	_, err := io.WriteString(c, b.String())
	require.NoError(t, err)
}

// Whatever else a hub asks is refused, and it can go on; it learns nothing that it may not.
func TestHostileHubsAreRefused(t *testing.T) {
	own := servers["edge-1"].Open(t, nil)
	spoke, err := redis.NewSpoke(redis.SpokeConfig{
		Redis: redis.Server{Address: own.Address, Credentials: func(context.Context) (string, string, error) { return "", "edge-1", nil }},
		Has: func(namespace, name string) (bool, error) {
			if name == "unknown" {
				return false, errors.New("not listed yet")
			}
			return namespace == "team" && name == "web", nil
		},
		Log: zap.NewNop(),
	})
	require.NoError(t, err)
	c := client(t, own.Address, func(o *goredis.Options) { o.Password = "edge-1" })
	for _, key := range []string{"app|resources-tree|team_web|1", "app|resources-tree|web|1", "app|resources-tree|db|1", "mfst|x"} {
		require.NoError(t, c.Set(t.Context(), key, "value of "+key, time.Hour).Err())
	}
	hub := serve(t, spoke.Serve)
	said := bufio.NewReader(hub)
	line := func() string {
		text, err := said.ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSpace(text)
	}
	for _, args := range [][]string{
		{"GET", "mfst|x"}, {"GET", "app|resources-tree|web|1"}, {"GET", "app|resources-tree|db|1"}, {"GET"}, {"GET", "app|resources-tree|team_web|1", "x"},
		{"SET", "app|resources-tree|team_web|1", "x"}, {"DEL", "app|resources-tree|team_web|1"}, {"MGET", "app|resources-tree|team_web|1"},
		{"KEYS", "*"}, {"SCAN", "0"}, {"FLUSHALL"}, {"CONFIG", "GET", "requirepass"}, {"EVAL", "return 1", "0"}, {"AUTH", "x"}, {"HELLO", "3"},
		{"SUBSCRIBE", "new-revoked-token"}, {"SUBSCRIBE", "app|managed-resources|web|1"}, {"SUBSCRIBE", "app|resources-tree|team_web|1"},
		{"SUBSCRIBE", "app|managed-resources|team_web|1.gz"}, {"PSUBSCRIBE", "*"}, {"PUBLISH", "app|managed-resources|team_web|1", ""}, {"UNSUBSCRIBE"},
		{"MONITOR"}, {"QUIT"}, {"GET\r\nFLUSHALL", "x"},
	} {
		ask(t, hub, args...)
		require.True(t, strings.HasPrefix(line(), "-NOPERM "), "%q", args)
	}
	ask(t, hub, "GET", "app|resources-tree|unknown|1")
	require.Equal(t, "-ERR not listed yet", line())
	ask(t, hub, "GET", "app|resources-tree|team_web|1")
	require.Equal(t, "$38", line())
	require.Equal(t, "value of app|resources-tree|team_web|1", line())
	ask(t, hub, "SUBSCRIBE", "app|managed-resources|team_web|1")
	for range 6 {
		line() // it is subscribed
	}
	ask(t, hub, "GET", "app|resources-tree|team_web|1")
	require.True(t, strings.HasPrefix(line(), "-NOPERM "))
	keys, err := c.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 4)
}

// What is no command ends the stream, and costs nothing.
func TestHubsThatSpeakOtherwiseAreCutOff(t *testing.T) {
	spoke, err := redis.NewSpoke(redis.SpokeConfig{Redis: redis.Server{Address: "127.0.0.1:1"}, Has: func(string, string) (bool, error) { return true, nil }, Log: zap.NewNop()})
	require.NoError(t, err)
	for _, text := range []string{"GET / HTTP/1.1\r\n", "*1\r\n$9223372036854775806\r\n", "*1\r\n$2147483647\r\n", "*-1\r\n", "*1\r\n*1\r\n"} {
		hub := serve(t, spoke.Serve)
		_, err := io.WriteString(hub, text)
		require.NoError(t, err)
		_, err = hub.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "%q", text)
	}
	hub := serve(t, spoke.Serve)
	ask(t, hub, "GET", "app|resources-tree|web|1")
	text, err := bufio.NewReader(hub).ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(text, "-ERR the agent's Redis: redis: reach 127.0.0.1:1: "), text)
}

// So many streams are served at a time, and one that ends makes room for another.
func TestStreamsAreBounded(t *testing.T) {
	spoke, err := redis.NewSpoke(redis.SpokeConfig{Redis: redis.Server{Address: "127.0.0.1:1"}, Has: func(string, string) (bool, error) { return true, nil }, Log: zap.NewNop()})
	require.NoError(t, err)
	ping := func(c net.Conn) string {
		ask(t, c, "PING")
		text, err := bufio.NewReader(c).ReadString('\n')
		require.NoError(t, err)
		return text
	}
	for range 128 {
		require.Equal(t, "+PONG\r\n", ping(serve(t, spoke.Serve)))
	}
	text, err := bufio.NewReader(serve(t, spoke.Serve)).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "-ERR max number of clients reached\r\n", text)
}
