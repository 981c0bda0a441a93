package kubeapi_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// A follow goes on while the certificate of the Hub and the token of the agent are replaced, and
// what is asked after that is answered by the new ones.
func TestAFollowOutlivesCertificatesAndTokens(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		next := make(chan struct{})
		w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/follow" {
				fmt.Fprint(rw, r.Header.Get("Authorization"))
				return
			}
			for i := 0; ; i++ {
				if say(rw, fmt.Appendln(nil, i)) != nil {
					return
				}
				select {
				case <-next:
				case <-r.Context().Done():
					return
				}
			}
		}), "a")
		answer, err := w.client(http2).Do(w.request("a", http.MethodGet, "/follow", nil))
		require.NoError(t, err)
		defer answer.Body.Close()
		lines := bufio.NewReader(answer.Body)
		for i := range 3 {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintln(i), line)
			changed, err := w.credentials.Replace(w.bundle(), time.Now())
			require.NoError(t, err)
			require.True(t, changed)
			require.NoError(t, os.WriteFile(filepath.Join(w.tokens, "a"), fmt.Append(nil, "token-", i), 0o600))
			other, _ := do(t, w.client(http2), w.request("a", http.MethodGet, "/", nil))
			require.Equal(t, http.StatusOK, other.StatusCode)
			require.Equal(t, w.credentials.Expiry().Unix(), other.TLS.PeerCertificates[0].NotAfter.Unix())
			require.NotEqual(t, answer.TLS.PeerCertificates[0].SerialNumber, other.TLS.PeerCertificates[0].SerialNumber)
			next <- struct{}{}
		}
	})
}

// The CA of the API server and the client certificate of the agent are those of their files, for
// each connection that is made.
func TestTheAPIServersCAIsReadAnew(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	var serving atomic.Pointer[tls.Config]
	renew := func() {
		office := newSite(t)
		own, err := office.ca.IssueAgent("a", options())
		require.NoError(t, err)
		for name, text := range map[string][]byte{"ca": office.ca.Pair().Cert, "cert": own.Cert, "key": own.Key} {
			require.NoError(t, os.WriteFile(file(name), text, 0o600))
		}
		serving.Store(office.credentials.Server()) // which asks for a certificate of the CA
	}
	renew()
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprint(rw, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	api.Config.ErrorLog = quiet()
	api.TLS = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) { return serving.Load().GetConfigForClient(h) }}
	api.StartTLS()
	t.Cleanup(api.Close)
	w := makeWorld(t, nil, &rest.Config{
		Host: api.URL, TLSClientConfig: rest.TLSClientConfig{CAFile: file("ca"), CertFile: file("cert"), KeyFile: file("key")},
	}, "a")
	for range 3 {
		answer, body := do(t, w.client(true), w.request("a", http.MethodGet, "/", nil))
		require.Equal(t, http.StatusOK, answer.StatusCode, string(body))
		require.Equal(t, "a", string(body))
		renew()
		api.CloseClientConnections() // those that are kept
	}
}
