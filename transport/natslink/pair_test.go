package natslink

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const anyPort = "127.0.0.1:0"

// quick is a Common whose faults are noticed soon.
func quick(t testing.TB, dir string) Common {
	return Common{StoreDir: dir, Heartbeat: time.Second, Logger: testLogger(t), Presence: transport.Presence{Version: "test", Oldest: 1, Newest: 2}}
}

func testLogger(t testing.TB) *zap.Logger {
	if testing.Verbose() {
		return zaptest.NewLogger(t, zaptest.Level(zap.InfoLevel))
	}
	return zap.NewNop()
}

// startHub runs a Hub until the function that it returns is called, or the test ends.
func startHub(t testing.TB, c HubConfig) (*Hub, func()) {
	h, err := NewHub(c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return h, stop
}

func hubConfig(t testing.TB, p tlstest.Authority) HubConfig {
	return HubConfig{
		Common: quick(t, t.TempDir()), Listen: "127.0.0.1:0", Credentials: p.Server(t), Authenticate: identity.SubjectName,
	}
}

func leafConfig(t testing.TB, p tlstest.Authority, agent, connect string) LeafConfig {
	return LeafConfig{Common: quick(t, t.TempDir()), Agent: agent, Connect: connect, Credentials: p.Client(t, agent)}
}

func dial(t testing.TB, c LeafConfig) transport.Link {
	leaf, err := NewLeaf(c)
	require.NoError(t, err)
	l, err := leaf.Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func addr(t testing.TB, h *Hub) string {
	a, err := h.Addr(t.Context())
	require.NoError(t, err)
	return a
}

func websocketAddr(t testing.TB, h *Hub) string {
	a, err := h.WebsocketAddr(t.Context())
	require.NoError(t, err)
	return a
}

// value returns a Message whose data is text.
func value(key, text string) transport.Message {
	e := event.New()
	e.SetID("id of " + key)
	e.SetSource("/test")
	e.SetType("test.value")
	_ = e.SetData(event.TextPlain, []byte(text))
	return transport.Message{Key: key, Digest: fmt.Sprintf("digest-%.20s", text), Event: e}
}

// await receives until ok says so, and returns the last Value of each key.
func await(t testing.TB, l transport.Link, ok func(transport.Delivery) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		d, err := l.Receive(ctx)
		require.NoError(t, err)
		if ok(d) {
			return
		}
	}
}

func isValue(key, text string) func(transport.Delivery) bool {
	return func(d transport.Delivery) bool {
		return d.Event == transport.Value && d.Message.Key == key && string(d.Message.Event.Data()) == text
	}
}

func TestPair(t *testing.T) {
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	require.NoError(t, hub.Send(t.Context(), value("k", "before")))
	agent := dial(t, leafConfig(t, p, "north", addr(t, h)))
	require.NoError(t, agent.Send(t.Context(), value("up/a.b", "1")))
	await(t, agent, isValue("k", "before"))
	await(t, hub, isValue("up/a.b", "1"))
	require.NoError(t, hub.Send(t.Context(), value("k", "after")))
	await(t, agent, isValue("k", "after"))
}

// logOf returns the log of this side's end of a Link.
func logOf(l transport.Link) *stream { return l.(*link).log.(*stream) }
