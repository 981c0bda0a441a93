package kubestore

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A proxy stands in front of a real API server, and fails as it is told.
type proxy struct {
	server *httptest.Server

	mu      sync.Mutex
	watches map[*http.Request]context.CancelFunc
	answer  func(request) *metav1.Status // what to answer instead of the API server; nil passes
}

// A request is what a test can tell requests by.
type request struct {
	method  string
	watch   bool
	initial bool // a watch that begins with a list
	list    bool
	probe   bool // a list that only asks how far the cluster has come
}

func newProxy(t *testing.T, to *rest.Config) *proxy {
	target, err := url.Parse(to.Host)
	require.NoError(t, err)
	transport, err := rest.TransportFor(to)
	require.NoError(t, err)
	p := &proxy{watches: map[*http.Request]context.CancelFunc{}}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, forward) }))
	t.Cleanup(func() {
		p.cut()
		p.server.Close()
	})
	return p
}

// config reaches the API server through the proxy, without a limit on requests.
func (p *proxy) config() *rest.Config { return &rest.Config{Host: p.server.URL, QPS: -1} }

func (p *proxy) serve(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	q := r.URL.Query()
	is := request{method: r.Method, watch: q.Get("watch") == "true", initial: q.Get("sendInitialEvents") == "true"}
	is.list = r.Method == http.MethodGet && !is.watch && strings.HasSuffix(r.URL.Path, "/applications")
	is.probe = is.list && q.Get("limit") == "1"
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	p.mu.Lock()
	var status *metav1.Status
	if p.answer != nil {
		status = p.answer(is)
	}
	if is.watch && status == nil {
		p.watches[r] = cancel
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, r)
	}()
	if status != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Code))
		_ = json.NewEncoder(w).Encode(status)
		return
	}
	forward.ServeHTTP(w, r.WithContext(ctx))
}

// set makes the proxy answer as f says from now on; nil lets everything through.
func (p *proxy) set(f func(request) *metav1.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = f
}

// cut ends the watches that run.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.watches {
		cancel()
	}
}

func failure(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}
}

// blind lets neither a watch nor a list through.
func blind(r request) *metav1.Status {
	if r.watch || r.list {
		return failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "it is blind")
	}
	return nil
}

// expired lets no list of objects through, and says to a watch that what it wants to begin with is
// no longer known.
func expired(r request) *metav1.Status {
	if r.watch && !r.initial {
		return failure(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
	}
	if r.probe {
		return nil
	}
	return blind(r)
}

// lose sets f, and ends the watches that run.
func (p *proxy) lose(f func(request) *metav1.Status) {
	p.set(f)
	p.cut()
}
