package tlstest

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A Websocket says how agents come by websocket: through a reverse proxy that speaks HTTP/1.1
// only.
type Websocket struct {
	Path string // of the URL
	TLS  bool   // the proxy is met by TLS, which ends at it, and meets the principal by another
}

// A reverse is a reverse proxy that speaks HTTP/1.1 only.
type reverse struct {
	*httptest.Server
	serving sync.WaitGroup
	ctx     context.Context // ends what it carries
	cancel  context.CancelFunc
	way     *http.Transport
}

// reverse returns a reverse proxy of a principal, until the test ends or it is stopped.
func (c Websocket) reverse(t testing.TB, ca Authority, principal string) *reverse {
	to := &url.URL{Scheme: "http", Host: principal}
	only := new(http.Protocols)
	only.SetHTTP1(true)
	r := &reverse{way: &http.Transport{Protocols: only, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if c.TLS {
		to.Scheme = "https"
	}
	passes := &httputil.ReverseProxy{Transport: r.way, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.serving.Add(1)
		defer r.serving.Done()
		ctx, cancel := context.WithCancel(q.Context())
		defer context.AfterFunc(r.ctx, cancel)()
		passes.ServeHTTP(w, q.WithContext(ctx))
	}))
	if c.TLS {
		pair := ca.ServerPair(t)
		own, err := tls.X509KeyPair(pair.Cert, pair.Key)
		require.NoError(t, err)
		r.TLS = &tls.Config{Certificates: []tls.Certificate{own}}
		r.StartTLS()
	} else {
		r.Start()
	}
	t.Cleanup(r.stop)
	return r
}

// stop ends the proxy, and what it carries.
func (r *reverse) stop() {
	r.cancel()
	r.Close()
	r.serving.Wait()
	r.way.CloseIdleConnections()
}

// url returns the URL by which agents come to an address: the proxy's, or one that leads there.
func (c Websocket) url(address string) *url.URL {
	return &url.URL{Scheme: map[bool]string{false: "ws", true: "wss"}[c.TLS], Host: address, Path: c.Path}
}

// ReverseProxyRestarts is the story of a reverse proxy that goes, and of another that takes its
// place: both sides notice, and find each other again.
func ReverseProxyRestarts(t *testing.T, a Adapter) {
	w, lines := a.world(t, heartbeat), &Lines{}
	first := a.Websocket.reverse(t, w.ca, w.address)
	lines.Listen(first.Listener.Addr().String())
	line := lines.Line(t, "north") // whose port stays
	hub, agent := w.link("north"), w.join("north", w.address, End{
		Own: w.ca.Client(t, "north"), Heartbeat: heartbeat, Websocket: a.Websocket.url(line.Addr()),
	})
	both := func(e transport.Event) {
		w.await(hub, is(e))
		w.await(agent, is(e))
	}
	both(transport.Up)
	w.send(agent, hub, "before")
	lines.Listen("")
	first.stop()
	both(transport.Down)
	w.put(hub, "meanwhile")
	lines.Listen(a.Websocket.reverse(t, w.ca, w.address).Listener.Addr().String())
	both(transport.Up)
	w.arrives(agent, "meanwhile")
	w.send(agent, hub, "after")
}
