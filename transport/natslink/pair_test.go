package natslink

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
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

// testPKI makes the certificates of one test, on disk as a user would have them.
type testPKI struct {
	dir string
	ca  *pki.CA
}

func newPKI(t testing.TB) *testPKI {
	ca, err := pki.NewCA("test", pkiOptions())
	require.NoError(t, err)
	p := &testPKI{dir: t.TempDir(), ca: ca}
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "ca.crt"), ca.Pair().Cert, 0o600))
	return p
}

func pkiOptions() pki.Options { return pki.Options{Now: time.Now(), Lifetime: time.Hour} }

func (p *testPKI) files(t testing.TB, name string, pair pki.Pair) identity.Files {
	f := identity.Files{
		CA: filepath.Join(p.dir, "ca.crt"), Cert: filepath.Join(p.dir, name+".crt"), Key: filepath.Join(p.dir, name+".key"),
	}
	require.NoError(t, os.WriteFile(f.Cert, pair.Cert, 0o600))
	require.NoError(t, os.WriteFile(f.Key, pair.Key, 0o600))
	return f
}

func (p *testPKI) server(t testing.TB) *identity.Credentials {
	pair, err := p.ca.IssueServer("principal", []string{"127.0.0.1"}, pkiOptions())
	require.NoError(t, err)
	c, err := p.files(t, "principal", pair).Credentials(time.Now())
	require.NoError(t, err)
	return c
}

func (p *testPKI) client(t testing.TB, agent string) *identity.Credentials {
	pair, err := p.ca.IssueAgent(agent, pkiOptions())
	require.NoError(t, err)
	c, err := p.files(t, agent, pair).Credentials(time.Now())
	require.NoError(t, err)
	return c
}

// credentials are those of a pair, and trust CAs.
func credentials(t testing.TB, pair pki.Pair, trusted ...*pki.CA) *identity.Credentials {
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

func hubConfig(t testing.TB, p *testPKI) HubConfig {
	return HubConfig{
		Common: quick(t, t.TempDir()), Listen: "127.0.0.1:0", Credentials: p.server(t), Authenticate: identity.SubjectName,
	}
}

func leafConfig(t testing.TB, p *testPKI, agent, connect string) LeafConfig {
	return LeafConfig{Common: quick(t, t.TempDir()), Agent: agent, Connect: connect, Credentials: p.client(t, agent)}
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
	p := newPKI(t)
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

// An agent that may not dial out reaches the hub through a proxy.
func TestThroughAProxy(t *testing.T) {
	p := newPKI(t)
	h, _ := startHub(t, hubConfig(t, p))
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	proxy := &netfault.Proxy{Credentials: "Basic bWU6c2VjcmV0"}
	s := httptest.NewServer(proxy)
	t.Cleanup(func() { s.Close(); proxy.Wait() })
	c := leafConfig(t, p, "north", addr(t, h))
	c.Proxy, err = url.Parse(s.URL)
	require.NoError(t, err)
	c.Proxy.User = url.UserPassword("me", "secret")
	agent := dial(t, c)
	require.NoError(t, agent.Send(t.Context(), value("key", "text")))
	await(t, hub, isValue("key", "text"))
	require.NotZero(t, proxy.Passed())
}
