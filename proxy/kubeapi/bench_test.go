package kubeapi_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answered answers at once, and logs without end.
func answered(rw http.ResponseWriter, r *http.Request) {
	piece := make([]byte, 32<<10)
	for r.URL.Path == "/log" {
		if say(rw, piece) != nil {
			return
		}
	}
	_, _ = rw.Write(piece[:2<<10])
}

// BenchmarkGet tells how long an object is under way, of 2 KiB, and what the proxies add to that.
// All of it is one process: argocd-agentctl bench live measures what it is for users.
func BenchmarkGet(b *testing.B) {
	w := newWorld(b, http.HandlerFunc(answered), "a")
	direct, err := http.NewRequestWithContext(b.Context(), http.MethodGet, w.api.URL+"/", nil)
	require.NoError(b, err)
	for name, ask := range map[string]func() (*http.Response, error){
		"Direct":  func() (*http.Response, error) { return w.api.Client().Do(direct) },
		"Proxied": get(w, "/"),
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				answer, err := ask()
				require.NoError(b, err)
				read(b, answer)
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

func get(w *world, path string) func() (*http.Response, error) {
	client := w.client(true)
	return func() (*http.Response, error) { return client.Do(w.request("a", http.MethodGet, path, nil)) }
}

// BenchmarkLog tells how fast a log is followed.
func BenchmarkLog(b *testing.B) {
	w := newWorld(b, http.HandlerFunc(answered), "a")
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		b.Run(name, func(b *testing.B) {
			answer, err := w.client(http2).Do(w.request("a", http.MethodGet, "/log", nil))
			require.NoError(b, err)
			defer answer.Body.Close()
			piece := make([]byte, 1<<20)
			b.SetBytes(int64(len(piece)))
			for b.Loop() {
				_, err := io.ReadFull(answer.Body, piece)
				require.NoError(b, err)
			}
		})
	}
}
