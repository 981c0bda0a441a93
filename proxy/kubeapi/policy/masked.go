package policy

import (
	"io"
	"mime"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi/status"
)

// masked has next answer a request for Secrets in JSON, and w be told it with their values
// masked. An answer that is not in JSON is kept from w, but for saying so.
func masked(w http.ResponseWriter, r *http.Request, sensitive []string, next http.Handler) {
	h := r.Header
	h.Set("Accept", "application/json")
	h.Set("Accept-Encoding", "identity")
	for _, name := range []string{"Connection", "Upgrade", "Range", "If-None-Match"} {
		h.Del(name) // there is no other protocol in which it could be answered, and no part of it
	}
	in, out := io.Pipe()
	m := &maskedWriter{under: w, head: r.Method == http.MethodHead, out: out}
	done := make(chan error, 1)
	go func() {
		err := mask(w, in, sensitive, func() { _ = http.NewResponseController(w).Flush() })
		_ = in.CloseWithError(err)
		done <- err
	}()
	whole := false
	defer func() {
		if !whole { // next has panicked, which is how it says that the answer broke off
			_ = out.CloseWithError(io.ErrUnexpectedEOF)
			<-done
		}
	}()
	next.ServeHTTP(m, r)
	_ = out.Close()
	err := <-done
	whole = true
	if err != nil {
		panic(http.ErrAbortHandler) // what was said is no whole answer
	}
}

// A maskedWriter passes head and body of an answer on, the body by a mask.
type maskedWriter struct {
	under   http.ResponseWriter
	out     *io.PipeWriter
	head    bool // it is an answer without a body
	said    bool
	refused bool
}

// Header implements http.ResponseWriter.
func (m *maskedWriter) Header() http.Header { return m.under.Header() }

// WriteHeader implements http.ResponseWriter.
func (m *maskedWriter) WriteHeader(code int) {
	if code < 200 && code != http.StatusSwitchingProtocols {
		m.under.WriteHeader(code)
		return
	}
	if m.said {
		return
	}
	m.said = true
	h := m.Header()
	typ, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	encoding := h.Get("Content-Encoding")
	bare := m.head || code == http.StatusNoContent || code == http.StatusNotModified
	if code < 200 || !bare && (typ != "application/json" || encoding != "" && encoding != "identity") {
		m.refused = true
		clear(h)
		status.Write(m.under, http.StatusBadGateway, metav1.StatusReasonInternalError,
			"live access: the API server has answered in another form than JSON, in which Secrets cannot be masked", 0)
		return
	}
	h.Del("Content-Length")
	m.under.WriteHeader(code)
	_ = http.NewResponseController(m.under).Flush() // a watch may have nothing to tell for long
}

// Write implements http.ResponseWriter.
func (m *maskedWriter) Write(b []byte) (int, error) {
	if !m.said {
		m.WriteHeader(http.StatusOK)
	}
	if m.refused || m.head {
		return len(b), nil
	}
	return m.out.Write(b)
}

// Flush implements http.Flusher: the head is flushed by WriteHeader, and values as they come.
func (m *maskedWriter) Flush() {
	if !m.said {
		m.WriteHeader(http.StatusOK)
	}
}
