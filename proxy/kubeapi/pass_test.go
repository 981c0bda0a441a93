package kubeapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// heard is what an API server has heard of a request.
type heard struct {
	Method, URI, Body string
	Header            http.Header
}

// echo answers by what it has heard.
func echo(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller has gone
		}
		w.Header().Set("X-Kubernetes-Pf-Flowschema-Uid", "is kept")
		w.Header().Set("Set-Cookie", "is=not")
		w.WriteHeader(http.StatusTeapot)
		if err := json.NewEncoder(w).Encode(heard{r.Method, r.RequestURI, string(body), r.Header}); err != nil {
			t.Log(err)
		}
	}
}

func do(t *testing.T, c *http.Client, r *http.Request) (*http.Response, []byte) {
	answer, err := c.Do(r)
	require.NoError(t, err)
	return answer, read(t, answer)
}

func TestRequestsAndAnswersPassUnchanged(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, echo(t), "a")
		for _, one := range []struct{ method, uri, kind, body string }{
			{"GET", "/version", "", ""},
			{"GET", "/apis?timeout=32s", "", ""},
			{"GET", "/api/v1/pods?limit=500&continue=e%3D%3D&labelSelector=a%2Fb%3Dc", "", ""},
			{"GET", "/api/v1/namespaces/x/services/http:y:z/proxy/a%2Fb//c", "", ""},
			{"POST", "/api/v1/namespaces/x/configmaps?dryRun=All", "application/json", `{"a":1}`},
			{"PUT", "/api/v1/namespaces/x/configmaps/y", "application/vnd.kubernetes.protobuf", "k8s\x00\xff\xfe"},
			{"PATCH", "/api/v1/namespaces/x/configmaps/y", "application/json-patch+json", `[]`},
			{"PATCH", "/api/v1/namespaces/x/configmaps/y", "application/merge-patch+json", `{}`},
			{"PATCH", "/api/v1/namespaces/x/configmaps/y/status", "application/strategic-merge-patch+json", `{}`},
			{"PATCH", "/api/v1/namespaces/x/configmaps/y?fieldManager=m&force=true", "application/apply-patch+yaml", "a: 1"},
			{"DELETE", "/api/v1/namespaces/x/pods/y", "application/json", `{"gracePeriodSeconds":0}`},
			{"OPTIONS", "/api", "", ""},
		} {
			r := w.request("a", one.method, one.uri, strings.NewReader(one.body))
			r.Header.Set("Content-Type", one.kind)
			r.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
			r.Header.Set("Accept-Encoding", "gzip")
			r.Header.Set("User-Agent", "kubectl")
			answer, body := do(t, w.client(http2), r)
			require.Equal(t, http.StatusTeapot, answer.StatusCode)
			require.Equal(t, http2, answer.ProtoMajor == 2)
			require.Equal(t, "is kept", answer.Header.Get("X-Kubernetes-Pf-Flowschema-Uid"))
			require.Empty(t, answer.Header.Get("Set-Cookie"))
			var got heard
			require.NoError(t, json.NewDecoder(bytes.NewReader(body)).Decode(&got))
			require.Equal(t, one.method, got.Method)
			require.Equal(t, one.uri, got.URI)
			require.Equal(t, strings.ToValidUTF8(one.body, "\ufffd"), strings.ReplaceAll(got.Body, "\ufffd\ufffd", "\ufffd"))
			for _, kept := range []string{"Accept", "Accept-Encoding", "User-Agent"} {
				require.Equal(t, r.Header[kept], got.Header[kept], kept)
			}
			require.Equal(t, one.kind, got.Header.Get("Content-Type"))
		}
	})
}
