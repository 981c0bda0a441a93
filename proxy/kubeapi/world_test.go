package kubeapi_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// TestMain leaves out what clients of Kubernetes let run on for some seconds.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"),
		goleak.IgnoreTopFunction("github.com/moby/spdystream.(*Connection).shutdown"))
}

// A site is the CA of the hub and what it has signed.
type site struct {
	t           testing.TB
	ca          *pki.CA
	credentials *identity.Credentials // of the Hub
}

func newSite(t testing.TB) site {
	ca, err := pki.NewCA("hub", options())
	require.NoError(t, err)
	s := site{t: t, ca: ca}
	s.credentials, err = identity.NewCredentials(s.bundle(), time.Now())
	require.NoError(t, err)
	return s
}

func options() pki.Options { return pki.Options{Now: time.Now(), Lifetime: time.Hour} }

// bundle returns a new certificate for the Hub.
func (s site) bundle() identity.Bundle {
	own, err := s.ca.IssueServer("proxy", []string{"127.0.0.1"}, options())
	require.NoError(s.t, err)
	return identity.Bundle{CA: identity.Text{PEM: s.ca.Pair().Cert}, Cert: identity.Text{PEM: own.Cert}, Key: identity.Text{PEM: own.Key}}
}

// A world is a Hub and the Spokes of agents, each on a link and before the same API server.
type world struct {
	site
	network *memlink.Network
	links   map[string]transport.Link // of the hub
	spokes  map[string]*kubeapi.Spoke
	stops   map[string]func() // end the processes of agents
	hub     *kubeapi.Hub
	address string           // of the Hub
	api     *httptest.Server // the API server
	real    *rest.Config     // that of a real one, if it is
	tokens  string           // a folder with the token of each agent's
	guard   func(http.Handler) http.Handler
}

// newWorld has the agents named work before an API server of the test's.
func newWorld(t testing.TB, api http.Handler, agents ...string) *world {
	return makeWorld(t, api, nil, agents...)
}

// makeWorld does so, or before a real one.
func makeWorld(t testing.TB, api http.Handler, real *rest.Config, agents ...string) *world {
	w := &world{site: newSite(t), real: real, network: memlink.New(memlink.Config{}), links: map[string]transport.Link{}, spokes: map[string]*kubeapi.Spoke{}, stops: map[string]func(){}, tokens: t.TempDir()}
	w.guard = func(next http.Handler) http.Handler { return next }
	w.api = httptest.NewUnstartedServer(api)
	w.api.EnableHTTP2 = true
	w.api.Config.ErrorLog = quiet()
	w.api.StartTLS()
	t.Cleanup(w.api.Close)
	hub := w.network.Hub(presence)
	w.run(hub.Run)
	w.startHub()
	for _, name := range agents {
		link, err := hub.Link(t.Context(), name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = link.Close() })
		w.links[name] = link
		w.startSpoke(name)
	}
	return w
}

var presence = transport.Presence{Version: "test", Oldest: 1, Newest: 1}

// run runs a part until the test is over.
func (w *world) run(part func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			require.ErrorIs(w.t, <-ended, context.Canceled)
		}
	}
	w.t.Cleanup(stop)
	return stop
}

func (w *world) startHub() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	w.address = l.Addr().String()
	callers := kubeapi.Callers{
		Certificate: func(r *http.Request, at time.Time) (string, error) {
			proof, err := identity.SubjectName(w.credentials, identity.Shown{TLS: r.TLS})
			if err == nil {
				err = w.credentials.Trusts(proof, at)
			}
			return proof.Agent, err
		},
		Token: func(token string, _ time.Time) (string, error) {
			if agent, ok := tokens[token]; ok {
				return agent, nil
			}
			return "", errors.New("the token is not ours")
		},
	}
	w.hub, err = kubeapi.NewHub(kubeapi.HubConfig{
		Listen: w.address, TLS: w.credentials.VisitorServer(), Name: callers.Name, Open: w.open, Log: zaptest.NewLogger(w.t),
	})
	require.NoError(w.t, err)
	w.run(func(ctx context.Context) error { return w.hub.Serve(ctx, l) })
}

// tokens are those of callers, and whose cluster they are for.
var tokens = map[string]string{"token-for-a": "a", "token-for-b": "b", "token-for-nobody": "nobody"}

func (w *world) open(ctx context.Context, agent, service string) (net.Conn, error) {
	if l, ok := w.links[agent]; ok {
		return l.Streams().Open(ctx, service)
	}
	return nil, transport.ErrUnknown
}

// startSpoke starts the process of an agent.
func (w *world) startSpoke(name string) {
	require.NoError(w.t, os.WriteFile(filepath.Join(w.tokens, name), []byte("token-of-agent-"+name), 0o600))
	w.start(name)
}

// start does so of one that has its token.
func (w *world) start(name string) {
	known := &rest.Config{
		Host:            w.api.URL,
		BearerTokenFile: filepath.Join(w.tokens, name),
		TLSClientConfig: rest.TLSClientConfig{CAData: certificate(w.api)},
	}
	if w.real != nil {
		known = w.real
	}
	spoke, err := kubeapi.NewSpoke(kubeapi.SpokeConfig{
		REST:  known,
		Guard: w.guard,
		Log:   zaptest.NewLogger(w.t),
	})
	require.NoError(w.t, err)
	w.spokes[name] = spoke
	serve := w.serve(name, proxy.Services{kubeapi.Service: spoke.Serve})
	run := w.run(spoke.Run)
	w.stops[name] = func() { serve(); run() }
}

// serve has an agent's process serve what the hub opens streams for.
func (w *world) serve(name string, services proxy.Services) (stop func()) {
	link, err := w.network.Agent(name, presence).Dial(w.t.Context())
	require.NoError(w.t, err)
	serve := w.run(func(ctx context.Context) error {
		services.Serve(ctx, link.Streams())
		<-ctx.Done() // it may end as the link does
		return context.Cause(ctx)
	})
	stop = func() { _ = link.Close(); serve() }
	w.t.Cleanup(stop)
	return stop
}

// restart starts another process of an agent's.
func (w *world) restart(name string) {
	w.stops[name]()
	w.start(name)
}

func certificate(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// config is that of a client with a token for an agent's cluster.
func (w *world) config(agent string) *rest.Config {
	return &rest.Config{
		Host:            "https://" + w.address + "?agentName=" + agent,
		BearerToken:     "token-for-" + agent,
		TLSClientConfig: rest.TLSClientConfig{CAData: w.ca.Pair().Cert},
	}
}

func (w *world) clientset(agent string) *kubernetes.Clientset {
	c, err := rest.HTTPClientFor(w.config(agent))
	require.NoError(w.t, err)
	w.t.Cleanup(c.CloseIdleConnections)
	set, err := kubernetes.NewForConfigAndClient(w.config(agent), c)
	require.NoError(w.t, err)
	return set
}

// client returns a plain client of the Hub, which shows a certificate if it is given one.
func (w *world) client(http2 bool, shown ...tls.Certificate) *http.Client {
	trusted := x509.NewCertPool()
	require.True(w.t, trusted.AppendCertsFromPEM(w.ca.Pair().Cert))
	to := &http.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: trusted, Certificates: shown},
		ForceAttemptHTTP2:  http2,
		DisableCompression: true,
	}
	w.t.Cleanup(to.CloseIdleConnections)
	return &http.Client{Transport: to, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// request is one of a caller with a token for an agent's cluster.
func (w *world) request(agent, method, path string, body io.Reader) *http.Request {
	r, err := http.NewRequestWithContext(w.t.Context(), method, "https://"+w.address+path, body)
	require.NoError(w.t, err)
	r.Header.Set("Authorization", "Bearer token-for-"+agent)
	return r
}

// both runs a test by each version of HTTP.
func both(t *testing.T, test func(t *testing.T, http2 bool)) {
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) { test(t, http2) })
	}
}
