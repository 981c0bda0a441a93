package tunnel_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

func TestParseWebsocket(t *testing.T) {
	for _, c := range []struct{ text, want, dialled, wrong string }{
		{"", "wss://hub:8443/agents", "hub:8443", ""},
		{"wss://front", "wss://front/agents", "front:443", ""},
		{"ws://front/", "ws://front/agents", "front:80", ""},
		{"ws://front:8080/behind/agents", "ws://front:8080/behind/agents", "front:8080", ""},
		{"https://front", "", "", "is reached by ws or wss"},
		{"front:443", "", "", "is reached by ws or wss"},
		{"wss:///agents", "", "", "names no host"},
		{"://secret", "", "", "it is no URL"},
	} {
		u, err := tunnel.ParseWebsocket(c.text, "hub:8443", path)
		if c.wrong != "" {
			require.ErrorContains(t, err, c.wrong)
			require.NotContains(t, err.Error(), "secret")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, u.String())
		require.Equal(t, c.dialled, tunnel.WebsocketAddress(u))
	}
}

// What is not a websocket says what it is.
func TestRouteTellsWhatIsAnswered(t *testing.T) {
	way := func(h http.HandlerFunc) tunnel.Route {
		u := serve(t, h)
		u.Scheme, u.User, u.Path = "ws", url.UserPassword("me", "secret"), path
		return tunnel.Route{Websocket: u}
	}
	for want, r := range map[string]tunnel.Route{
		`it is answered 503 Service Unavailable: "nobody is behind me"`: way(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "nobody is behind me\nand so on", http.StatusServiceUnavailable)
		}),
		`it is answered 302 Found: ""`: way(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/login")
			w.WriteHeader(http.StatusFound)
		}),
		"connection refused": {Websocket: &url.URL{Scheme: "ws", Host: "127.0.0.1:1", Path: path}},
	} {
		_, err := r.Dial(t.Context(), "hub:1")
		require.ErrorContains(t, err, "tunnel: reach ws://")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}

// By wss a host has to show a certificate of the CA, or of one that the system trusts.
func TestRouteTrusts(t *testing.T) {
	s := newSite(t, false)
	r := s.route("wss")
	r.TLS = tlstest.NewAuthority(t).Client(t, "north").EnvelopeClient
	_, err := r.Dial(t.Context(), "hub:1")
	require.ErrorContains(t, err, "certificate signed by unknown authority")
}

// A websocket is reached through an HTTP proxy as anything else is.
func TestRouteThroughAProxy(t *testing.T) {
	s, p := newSite(t, false), &netfault.Proxy{}
	r := s.route("wss")
	r.Proxy = serve(t, p)
	c, err := r.Dial(t.Context(), "hub:1")
	require.NoError(t, err)
	hears(t, c, "hello")
	require.NoError(t, c.Close())
	p.Wait()
	require.EqualValues(t, 1, p.Passed())
}

// What answers nothing is waited for no longer than the caller waits.
func TestRouteEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Read(make([]byte, 1)) // it has been asked
			cancel()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	_, err = tunnel.Route{Websocket: &url.URL{Scheme: "ws", Host: l.Addr().String(), Path: path}}.Dial(ctx, "hub:1")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, l.Close())
	<-ended
}
