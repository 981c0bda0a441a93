package grpclink

import (
	"context"
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

var presence = transport.Presence{Version: "test", Oldest: 1, Newest: 2}

// quick is a Common whose faults are noticed soon.
func quick(t testing.TB) Common {
	return Common{Heartbeat: 500 * time.Millisecond, Logger: testLogger(t), Presence: presence}
}

func testLogger(t testing.TB) *zap.Logger {
	if testing.Verbose() {
		return zaptest.NewLogger(t, zaptest.Level(zap.InfoLevel))
	}
	return zap.NewNop()
}

func hubConfig(t testing.TB, ca tlstest.Authority) HubConfig {
	return HubConfig{Common: quick(t), Listen: "127.0.0.1:0", Credentials: ca.Server(t), Authenticate: identity.SubjectName}
}

func dialerConfig(t testing.TB, ca tlstest.Authority, agent, connect string) DialerConfig {
	return DialerConfig{Common: quick(t), Agent: agent, Connect: connect, Credentials: ca.Client(t, agent), StateDir: t.TempDir()}
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

func addr(t testing.TB, h *Hub) string {
	a, err := h.Addr(t.Context())
	require.NoError(t, err)
	return a
}

// dial opens the Link of an agent, until the test ends.
func dial(t testing.TB, c DialerConfig) transport.Link {
	d, err := NewDialer(c)
	require.NoError(t, err)
	l, err := d.Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// value returns a message; its text is also its digest.
func value(key, text string) transport.Message {
	e := event.New()
	e.SetID("id")
	e.SetSource("test")
	e.SetType("test")
	e.DataEncoded = []byte(text)
	return transport.Message{Key: key, Digest: text, Event: e}
}

// await receives until a delivery is as it should be.
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

func is(e transport.Event) func(transport.Delivery) bool {
	return func(d transport.Delivery) bool { return d.Event == e }
}

func isValue(key, text string) func(transport.Delivery) bool {
	return func(d transport.Delivery) bool {
		return d.Event == transport.Value && d.Message.Key == key && string(d.Message.Event.Data()) == text
	}
}
