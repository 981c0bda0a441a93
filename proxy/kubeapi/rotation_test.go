package kubeapi_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
