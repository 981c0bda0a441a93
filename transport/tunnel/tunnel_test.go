package tunnel_test

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/transport/netfault"
	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves a proxy until the test ends, and returns its URL.
func serve(t *testing.T, h http.Handler) *url.URL {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	return u
}

// echo returns the address of a server that says everything back.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { require.NoError(t, l.Close()); <-ended })
	return l.Addr().String()
}

func TestDial(t *testing.T) {
	p := &netfault.Proxy{Credentials: "Basic " + base64.StdEncoding.EncodeToString([]byte("me:secret"))}
	u, address := serve(t, p), echo(t)
	_, err := tunnel.Dial(t.Context(), u, address)
	require.ErrorContains(t, err, "the proxy answers 407 Proxy Authentication Required")
	u.User = url.UserPassword("me", "secret")
	c, err := tunnel.Dial(t.Context(), u, address)
	require.NoError(t, err)
	_, err = io.WriteString(c, "hello")
	require.NoError(t, err)
	said := make([]byte, 5)
	_, err = io.ReadFull(c, said)
	require.NoError(t, err)
	require.Equal(t, "hello", string(said))
	require.NoError(t, c.Close())
	p.Wait()
	require.EqualValues(t, 1, p.Passed())

	_, err = tunnel.Dial(t.Context(), u, "127.0.0.1:1")
	require.ErrorContains(t, err, "502 Bad Gateway")
	require.NotContains(t, err.Error(), "secret")
}

// A proxy that does not answer is waited for no longer than the caller waits.
func TestDialEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Read(make([]byte, 1)) // it has been asked
			cancel()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	_, err = tunnel.Dial(ctx, &url.URL{Scheme: "http", Host: l.Addr().String()}, "hub.example.com:1")
	require.Error(t, err)
}

func TestParse(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
	t.Setenv("NO_PROXY", "near.example.com")
	for _, c := range []struct{ text, address, want, wrong string }{
		{"", "hub.example.com:8443", "http://proxy.example.com:3128", ""},
		{"", "near.example.com:8443", "", ""},
		{"", "127.0.0.1:8443", "", ""},
		{"direct", "hub.example.com:8443", "", ""},
		{"https://other.example.com", "127.0.0.1:1", "https://other.example.com", ""},
		{"socks5://other", "hub:1", "", "reached by http or https"},
		{"http://", "hub:1", "", "names no host"},
		{"://secret", "hub:1", "", "it is no URL"},
	} {
		u, err := tunnel.Parse(c.text, c.address)
		switch {
		case c.wrong != "":
			require.ErrorContains(t, err, c.wrong)
			require.NotContains(t, err.Error(), "secret")
		case c.want == "":
			require.NoError(t, err)
			require.Nil(t, u, c)
		default:
			require.NoError(t, err)
			require.Equal(t, c.want, u.String())
		}
	}
	require.Equal(t, "other:443", tunnel.Address(&url.URL{Scheme: "https", Host: "other"}))
	require.Equal(t, "other:8080", tunnel.Address(&url.URL{Scheme: "http", Host: "other:8080"}))
}
