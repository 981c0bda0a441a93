package grpclink

import (
	"context"
	"net/http/httptest"
	"net/url"
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
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A testPKI makes the certificates of one test.
type testPKI struct{ ca *pki.CA }

func newPKI(t testing.TB) testPKI {
	ca, err := pki.NewCA("test", pkiOptions())
	require.NoError(t, err)
	return testPKI{ca}
}

func pkiOptions() pki.Options { return pki.Options{Now: time.Now(), Lifetime: time.Hour} }

// proof is the credentials of a pair, which trust CAs.
func proof(t testing.TB, pair pki.Pair, trusted ...*pki.CA) *identity.Credentials {
	c, err := identity.NewCredentials(bundle(pair, trusted...), time.Now())
	require.NoError(t, err)
	return c
}

func bundle(pair pki.Pair, trusted ...*pki.CA) identity.Bundle {
	b := identity.Bundle{Cert: identity.Text{Where: "cert", PEM: pair.Cert}, Key: identity.Text{Where: "key", PEM: pair.Key}, CA: identity.Text{Where: "ca"}}
	for _, ca := range trusted {
		b.CA.PEM = append(b.CA.PEM, ca.Pair().Cert...)
	}
	return b
}

func (p testPKI) server(t testing.TB) *identity.Credentials {
	pair, err := p.ca.IssueServer("principal", []string{"127.0.0.1"}, pkiOptions())
	require.NoError(t, err)
	return proof(t, pair, p.ca)
}

func (p testPKI) client(t testing.TB, agent string) *identity.Credentials {
	pair, err := p.ca.IssueAgent(agent, pkiOptions())
	require.NoError(t, err)
	return proof(t, pair, p.ca)
}

// quick is a Common whose faults are noticed soon.
func quick(t testing.TB) Common {
	return Common{Heartbeat: 500 * time.Millisecond, Logger: testLogger(t), Presence: transport.Presence{Version: "test", Oldest: 1, Newest: 2}}
}

func testLogger(t testing.TB) *zap.Logger {
	if testing.Verbose() {
		return zaptest.NewLogger(t, zaptest.Level(zap.InfoLevel))
	}
	return zap.NewNop()
}

func hubConfig(t testing.TB, p testPKI) HubConfig {
	return HubConfig{Common: quick(t), Listen: "127.0.0.1:0", Credentials: p.server(t), Authenticate: identity.SubjectName}
}

func dialerConfig(t testing.TB, p testPKI, agent, connect string) DialerConfig {
	return DialerConfig{Common: quick(t), Agent: agent, Connect: connect, Credentials: p.client(t, agent), StateDir: t.TempDir()}
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

// An agent that may not dial out reaches the hub through a proxy.
func TestThroughAProxy(t *testing.T) {
	p := newPKI(t)
	h, _ := startHub(t, hubConfig(t, p))
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	proxy := &netfault.Proxy{Credentials: "Basic bWU6c2VjcmV0"}
	s := httptest.NewServer(proxy)
	t.Cleanup(func() { s.Close(); proxy.Wait() })
	c := dialerConfig(t, p, "north", addr(t, h))
	c.Proxy, err = url.Parse(s.URL)
	require.NoError(t, err)
	c.Proxy.User = url.UserPassword("me", "secret")
	agent := dial(t, c)
	require.NoError(t, agent.Send(t.Context(), value("key", "text")))
	await(t, hub, isValue("key", "text"))
	require.NotZero(t, proxy.Passed())
}
