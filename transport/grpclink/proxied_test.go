package grpclink

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// proxied is a HubConfig of a principal that believes what proxies on this machine say.
func proxied(t *testing.T) HubConfig {
	method, err := identity.ParseMethod("header:X-Agent:CN=(.+)", identity.Terms{})
	require.NoError(t, err)
	return HubConfig{Common: quick(t), Listen: "127.0.0.1:0", Credentials: plain(t), Authenticate: method.Prove}
}

func plain(t *testing.T) *identity.Credentials {
	c, err := identity.NewCredentials(identity.Bundle{Plain: true}, tlstest.Options().Now)
	require.NoError(t, err)
	return c
}

// startProxy runs a proxy before a hub, which says by says whom it has met, until the test ends.
// With an authority it does TLS.
func startProxy(t *testing.T, hub string, ca *tlstest.Authority, says func(*http.Request) string) (address string) {
	to := &http.Transport{Protocols: new(http.Protocols)}
	to.Protocols.SetUnencryptedHTTP2(true)
	s := httptest.NewUnstartedServer(&httputil.ReverseProxy{Transport: to, FlushInterval: -1, ErrorLog: zap.NewStdLog(zap.NewNop()), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: hub})
		r.Out.Header.Set("X-Agent", says(r.In))
	}})
	s.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	s.Config.Protocols = new(http.Protocols)
	if ca == nil {
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	} else {
		s.Config.Protocols.SetHTTP2(true)
		s.EnableHTTP2 = true
		now, err := ca.Server(t).Server().GetConfigForClient(nil)
		require.NoError(t, err)
		s.TLS = now.Clone() // which speaks HTTP/2
		s.StartTLS()
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		to.CloseIdleConnections()
	})
	return s.Listener.Addr().String()
}

// A proxy that does TLS says who an agent is by its certificate, whatever the agent says itself.
// Who is blocked is cut off all the same.
func TestAProxySaysWhoAnAgentIs(t *testing.T) {
	ca := tlstest.NewAuthority(t)
	config := proxied(t)
	h, _ := startHub(t, config)
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	proxy := startProxy(t, addr(t, h), &ca, func(r *http.Request) string { return r.TLS.PeerCertificates[0].Subject.String() })
	agent := dial(t, dialerConfig(t, ca, "north", proxy))
	require.NoError(t, agent.Send(t.Context(), value("k", "up")))
	await(t, hub, isValue("k", "up"))
	require.NoError(t, hub.Send(t.Context(), value("k", "down")))
	await(t, agent, isValue("k", "down"))
	other, err := h.Link(t.Context(), "south") // by the same connection of the proxy
	require.NoError(t, err)
	second := dial(t, dialerConfig(t, ca, "south", proxy))
	require.NoError(t, other.Send(t.Context(), value("k", "to the south")))
	await(t, second, isValue("k", "to the south"))

	config.Credentials.Block(identity.Blocklist{"north": "it was sold"})
	await(t, hub, is(transport.Down))
	config.Credentials.Block(nil)
	await(t, hub, is(transport.Up))
}

// An agent beside a proxy that does TLS for it speaks in plaintext, and so may a principal be
// spoken to by a socket.
func TestAnAgentBehindAProxySpeaksInPlaintext(t *testing.T) {
	config := proxied(t)
	h, _ := startHub(t, config)
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	proxy := startProxy(t, addr(t, h), nil, func(*http.Request) string { return "CN=north" })
	c := dialerConfig(t, tlstest.NewAuthority(t), "north", proxy)
	c.Credentials = plain(t)
	agent := dial(t, c)
	require.NoError(t, agent.Send(t.Context(), value("k", "up")))
	await(t, hub, isValue("k", "up"))
}

// Whom no proxy has met is nobody, and the log says what to do.
func TestWithoutAProxyNobodyIsLetIn(t *testing.T) {
	config := proxied(t)
	core, said := observer.New(zap.WarnLevel)
	refused := make(chan struct{}, 100)
	who := config.Authenticate
	config.Logger, config.Authenticate = zap.New(core), func(c *identity.Credentials, s identity.Shown) (identity.Proof, error) {
		defer func() { refused <- struct{}{} }()
		return who(c, s)
	}
	h, _ := startHub(t, config)
	c := dialerConfig(t, tlstest.NewAuthority(t), "north", addr(t, h))
	c.Credentials = plain(t)
	dial(t, c)
	<-refused
	<-refused // by when the first is in the log
	require.Equal(t, "identity: no header X-Agent matches --auth: it has []", said.FilterMessage("refused a connection").All()[0].ContextMap()["error"])
}

// A socket that nobody listens on is taken over, and one on which somebody does is not.
func TestUnixSockets(t *testing.T) {
	config := proxied(t)
	config.Listen = unixPrefix + filepath.Join(t.TempDir(), "hub")
	left, err := listen(config.Listen)
	require.NoError(t, err)
	left.(interface{ SetUnlinkOnClose(bool) }).SetUnlinkOnClose(false)
	require.NoError(t, left.Close())
	h, _ := startHub(t, config)
	require.NotEmpty(t, addr(t, h))
	_, err = listen(config.Listen)
	require.ErrorContains(t, err, "something listens on")
	config.Listen = unixPrefix
	_, err = NewHub(config)
	require.ErrorContains(t, err, "no Unix socket is named")
}
