package kubeapi_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// shows returns the certificate of an agent.
func (w *world) shows(agent string) tls.Certificate {
	pair, err := w.ca.IssueAgent(agent, options())
	require.NoError(w.t, err)
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(w.t, err)
	return cert
}

// The name of an agent comes from what proves it, and from nothing else of a request.
func TestWhoAsksIsProved(t *testing.T) {
	w := newWorld(t, echo(t), "a", "b")
	for name, one := range map[string]struct {
		shown []tls.Certificate
		says  []string
		token string // that the API server hears; "" is that nobody is let in
	}{
		"nobody":                {},
		"token":                 {says: []string{"Bearer token-for-a"}, token: "token-of-agent-a"},
		"token, in lower case":  {says: []string{"bearer token-for-b"}, token: "token-of-agent-b"},
		"certificate":           {shown: []tls.Certificate{w.shows("b")}, token: "token-of-agent-b"},
		"both":                  {shown: []tls.Certificate{w.shows("a")}, says: []string{"Bearer token-for-a"}, token: "token-of-agent-a"},
		"both, of two":          {shown: []tls.Certificate{w.shows("a")}, says: []string{"Bearer token-for-b"}},
		"certificate, and lies": {shown: []tls.Certificate{w.shows("a")}, says: []string{"Bearer lie"}},
		"two tokens":            {says: []string{"Bearer token-for-a", "Bearer token-for-b"}},
		"no token":              {says: []string{"Bearer "}},
		"password":              {says: []string{"Basic dG9rZW4tZm9yLWE="}},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.request("a", http.MethodGet, "/api?agentName=b", nil)
			r.Header["Authorization"] = one.says
			answer, body := do(t, w.client(true, one.shown...), r)
			if one.token == "" {
				require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
				var s metav1.Status
				require.NoError(t, json.Unmarshal(body, &s))
				require.Equal(t, metav1.StatusReasonUnauthorized, s.Reason)
				return
			}
			require.Equal(t, http.StatusTeapot, answer.StatusCode)
			require.Contains(t, string(body), `"Bearer `+one.token+`"`)
		})
	}
}

// ask asks for a pod of an agent's.
func (w *world) ask(agent string) error {
	_, err := w.clientset(agent).CoreV1().Pods("x").Get(w.t.Context(), "y", metav1.GetOptions{})
	return err
}

// A certificate that somebody else has signed is refused as it is shown.
func TestAForeignCertificate(t *testing.T) {
	w := newWorld(t, echo(t), "a")
	foreign := (&world{site: newSite(t)}).shows("a")
	client := w.client(false)
	client.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &foreign, nil }
	_, err := client.Do(w.request("a", http.MethodGet, "/api", nil))
	require.Error(t, err)
	require.Zero(t, w.hub.Count(kubeapi.Answered))
}

// Who asks of an agent that is away hears so at once, and of one that is back, its answer.
func TestAnAgentThatIsAway(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"y"}}`))
	}), "a")
	require.NoError(t, w.ask("a"))

	w.network.Set("a", memlink.Weather{Line: memlink.Cut})
	start := time.Now()
	err := w.ask("a")
	require.Less(t, time.Since(start), 2*time.Second)
	require.True(t, apierrors.IsServiceUnavailable(err), err)
	require.ErrorContains(t, err, "agent a is not connected")
	seconds, suggests := apierrors.SuggestsClientDelay(err)
	require.True(t, suggests)
	require.Positive(t, seconds)
	require.EqualValues(t, 1, w.hub.Count(kubeapi.Away))

	w.network.Set("a", memlink.Weather{})
	require.NoError(t, w.ask("a"))
}

func TestAnAgentThatIsNotRegistered(t *testing.T) {
	w := newWorld(t, echo(t))
	err := w.ask("nobody")
	require.True(t, apierrors.IsForbidden(err), "it must not look as if the object did not exist: %v", err)
}

// An agent of which live access is not to be had says nothing on the stream.
func TestAnAgentWithoutLiveAccess(t *testing.T) {
	w := newWorld(t, echo(t), "a")
	w.stops["a"]()
	w.serve("a", nil)
	err := w.ask("a")
	require.True(t, apierrors.IsServiceUnavailable(err), err)
	require.ErrorContains(t, err, "--enable-resource-proxy")
}

// That is so too if it is seen when the request is sent.
func TestAnAgentThatHasClosedTheStream(t *testing.T) {
	w := newWorld(t, echo(t), "a")
	w.stops["a"]()
	w.serve("a", nil)
	hub, err := kubeapi.NewHub(kubeapi.HubConfig{
		Listen: "127.0.0.1:0", TLS: w.credentials.VisitorServer(), Log: zap.NewNop(),
		Name: func(*http.Request, time.Time) (string, error) { return "a", nil },
		Open: func(ctx context.Context, agent, service string) (net.Conn, error) {
			c, err := w.open(ctx, agent, service)
			require.NoError(t, err)
			_, err = c.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
			return c, nil
		},
	})
	require.NoError(t, err)
	heard := httptest.NewRecorder()
	hub.ServeHTTP(heard, httptest.NewRequest(http.MethodGet, "/api", nil))
	require.Equal(t, http.StatusServiceUnavailable, heard.Code)
	require.Contains(t, heard.Body.String(), "--enable-resource-proxy")
}

// An API server that does not answer is told of as such.
func TestAnAPIServerThatIsAway(t *testing.T) {
	w := newWorld(t, echo(t), "a")
	w.api.Close()
	err := w.ask("a")
	require.True(t, apierrors.IsServiceUnavailable(err), err)
	require.ErrorContains(t, err, "cannot reach its API server")
	require.EqualValues(t, 1, w.spokes["a"].Count(kubeapi.Failed))
}
