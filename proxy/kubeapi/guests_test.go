package kubeapi_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// block has the Hub keep out who shows a certificate.
func (w *world) block(shown tls.Certificate) {
	list, err := identity.NewBlocklist(map[string]string{identity.Fingerprint(shown.Leaf): "stolen"})
	require.NoError(w.t, err)
	w.credentials.Block(list)
	w.hub.Recheck()
}

// follow begins a follow of an agent's, whose first line has come.
func (w *world) follow(http2 bool, r *http.Request, shown ...tls.Certificate) *bufio.Reader {
	answer, err := w.client(http2, shown...).Do(r)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { answer.Body.Close() })
	require.Equal(w.t, http.StatusOK, answer.StatusCode)
	lines := bufio.NewReader(answer.Body)
	_, err = lines.ReadString('\n')
	require.NoError(w.t, err)
	return lines
}

// What a caller follows ends once his certificate is blocked, at the API server too, and what
// others follow does not.
func TestWhoIsBlockedIsShownOut(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		more := map[string]chan struct{}{"/stolen": make(chan struct{}), "/own": make(chan struct{}), "/token": make(chan struct{})}
		ended := make(chan string, len(more))
		w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			for say(rw, []byte("line\n")) == nil {
				select {
				case <-more[r.URL.Path]:
				case <-r.Context().Done():
					ended <- r.URL.Path
					return
				}
			}
		}), "a")
		thief, owner := w.shows("a"), w.shows("a")
		asks := func(path string) *http.Request {
			r := w.request("a", http.MethodGet, path, nil)
			r.Header.Del("Authorization")
			return r
		}
		stolen := w.follow(http2, asks("/stolen"), thief)
		others := map[string]*bufio.Reader{"/own": w.follow(http2, asks("/own"), owner), "/token": w.follow(http2, w.request("a", http.MethodGet, "/token", nil))}
		w.hub.Recheck() // nobody is blocked
		w.block(thief)
		_, err := stolen.ReadString('\n')
		require.Error(t, err)
		require.Equal(t, "/stolen", <-ended)
		for path, lines := range others {
			more[path] <- struct{}{}
			_, err := lines.ReadString('\n')
			require.NoError(t, err)
		}
		answer, _ := do(t, w.client(http2, thief), asks("/stolen"))
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
	})
}

// So does a program that runs in a pod.
func TestACommandOfWhoIsBlockedEnds(t *testing.T) {
	for _, executor := range executors {
		ended := make(chan struct{}, 1)
		w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			kubelet{}.ServeHTTP(rw, r)
			ended <- struct{}{}
		}), "a")
		pair, err := w.ca.IssueAgent("a", options())
		require.NoError(t, err)
		thief, err := tls.X509KeyPair(pair.Cert, pair.Key)
		require.NoError(t, err)
		c := &rest.Config{Host: "https://" + w.address, TLSClientConfig: rest.TLSClientConfig{CAData: w.ca.Pair().Cert, CertData: pair.Cert, KeyData: pair.Key}}
		run, err := executor(c, w.of("exec"))
		require.NoError(t, err)
		in, typed := io.Pipe()
		over := make(chan error, 1)
		go func() {
			over <- run.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: in, Stdout: io.Discard, Stderr: io.Discard})
		}()
		_, err = typed.Write([]byte("x")) // it is read once there is a program
		require.NoError(t, err)
		w.block(thief)
		<-over // clients of SPDY take it for a program that has ended
		<-ended
		require.NoError(t, typed.Close())
	}
}
