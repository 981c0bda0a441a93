package kubeapi_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi"
)

// borrowed are headers by which a request would come on behalf of somebody.
var borrowed = map[string]string{
	"Authorization":                  "Bearer token-for-a",
	"Cookie":                         "a=b",
	"Forwarded":                      "for=1.2.3.4",
	"Impersonate-Extra-Scopes":       "all",
	"Impersonate-Group":              "system:masters",
	"Impersonate-Uid":                "0",
	"Impersonate-User":               "admin",
	"Proxy-Authorization":            "Basic YTpi",
	"X-Forwarded-For":                "1.2.3.4",
	"X-Forwarded-Uri":                "/api",
	"X-Real-Ip":                      "1.2.3.4",
	"X-Remote-Extra-Authentication":  "x",
	"X-Remote-Group":                 "system:masters",
	"X-Remote-User":                  "admin",
	"X-Remote-Extra-Scopes%2fcustom": "x",
}

// requireItself holds that an API server has heard of the agent, and of nobody else.
func requireItself(t *testing.T, w *world, body []byte, guarded http.Header) {
	var got heard
	require.NoError(t, json.Unmarshal(body, &got))
	require.Equal(t, []string{"Bearer token-of-agent-a"}, got.Header["Authorization"])
	for name := range borrowed {
		require.NotContains(t, guarded, name)
		if name != "Authorization" {
			require.NotContains(t, got.Header, name)
		}
	}
	require.Equal(t, "v5.channel.k8s.io, v4.channel.k8s.io", got.Header.Get("Sec-Websocket-Protocol"))
	require.NotContains(t, got.Header, "X-Hop")
	require.NotContains(t, string(body), "token-for-a")
	require.Equal(t, []string{"kept"}, got.Header["X-Kept"])
}

func borrow(h http.Header) {
	for name, value := range borrowed {
		h.Set(name, value)
	}
	h.Set("X-Kept", "kept")
	h.Set("Connection", "X-Hop")
	h.Set("X-Hop", "x")
	h.Set("Sec-Websocket-Protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.dG9rZW4tZm9yLWE")
	h.Add("Sec-Websocket-Protocol", "Base64URL.bearer.authorization.k8s.io.dG9rZW4tZm9yLWE,v4.channel.k8s.io")
}

// The hub's token never reaches a spoke, and the agent is nobody but itself, whoever has the
// request say otherwise: a caller, or a hub that was taken over.
func TestTheAgentActsAsItself(t *testing.T) {
	w := newWorld(t, echo(t), "a")
	var guarded http.Header
	w.guard = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			guarded = r.Header.Clone()
			next.ServeHTTP(rw, r)
		})
	}
	w.restart("a")
	r := w.request("a", http.MethodPost, "/api", strings.NewReader("x"))
	borrow(r.Header)
	_, body := do(t, w.client(false), r)
	requireItself(t, w, body, guarded)

	stream, err := w.open(t.Context(), "a", kubeapi.Service)
	require.NoError(t, err)
	defer stream.Close()
	borrow(r.Header)
	r.Body, r.ContentLength = http.NoBody, 0
	require.NoError(t, r.Write(stream))
	answer, err := http.ReadResponse(bufio.NewReader(stream), r)
	require.NoError(t, err)
	body = read(t, answer)
	requireItself(t, w, body, guarded)
}

// What is no request of the Kubernetes API is not passed on by either half.
func TestTheSpokeIsNoProxyToElsewhere(t *testing.T) {
	w := newWorld(t, echo(t), "a")
	for _, line := range []string{"CONNECT 10.0.0.1:443 HTTP/1.1", "GET http://10.0.0.1/api HTTP/1.1", "OPTIONS * HTTP/1.1"} {
		stream, err := w.open(t.Context(), "a", kubeapi.Service)
		require.NoError(t, err)
		_, err = stream.Write([]byte(line + "\r\nHost: x\r\nConnection: close\r\n\r\n"))
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(stream), nil)
		require.NoError(t, err, line)
		require.Equal(t, http.StatusBadRequest, answer.StatusCode, line)
		require.NoError(t, stream.Close())
	}
	secure, err := tls.Dial("tcp", w.address, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer secure.Close()
	_, err = secure.Write([]byte("GET http://10.0.0.1/api HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-for-a\r\n\r\n"))
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(secure), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, answer.StatusCode)
}

// The token of the agent is that of its file, also once that is another.
func TestTheAgentsTokenIsReadAnew(t *testing.T) {
	w := newWorld(t, echo(t), "a")
	_, body := do(t, w.client(true), w.request("a", http.MethodGet, "/api", nil))
	require.Contains(t, string(body), "Bearer token-of-agent-a")
	require.NoError(t, os.WriteFile(filepath.Join(w.tokens, "a"), []byte("another-token"), 0o600))
	w.restart("a") // client-go believes a token for a while
	_, body = do(t, w.client(true), w.request("a", http.MethodGet, "/api", nil))
	require.Contains(t, string(body), "Bearer another-token")
}

// An answer must not lead a caller, who takes its token along, to another host.
func TestAnswersDoNotLeadElsewhere(t *testing.T) {
	to := ""
	w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Location", to)
		rw.WriteHeader(http.StatusFound)
	}), "a")
	for location, code := range map[string]int{
		"/api/v1/namespaces": http.StatusFound, "pods?limit=1": http.StatusFound,
		"https://10.0.0.1/": http.StatusBadGateway, "//10.0.0.1/": http.StatusBadGateway, "http:x": http.StatusBadGateway, ":": http.StatusBadGateway,
	} {
		to = location
		answer, _ := do(t, w.client(true), w.request("a", http.MethodGet, "/api", nil))
		require.Equal(t, code, answer.StatusCode, location)
	}
}
