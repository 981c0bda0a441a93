package kubestore

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
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
	watches map[*http.Request]running
	trouble func(request) fault // what to do instead of passing a request on; nil passes it
}

// running is a watch that is being answered.
type running struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when nothing more is shown
}

// A fault is what becomes of a request. forward has it answered by the API server.
type fault func(w http.ResponseWriter, r *http.Request, forward http.Handler)

// A speech is what is said to a request in place of the API server's answer; nil is that.
type speech func(request) *metav1.Status

// A request is what a test can tell requests by.
type request struct {
	method  string
	watch   bool
	initial bool // a watch that begins with a list
	from    int  // where a watch begins that does not
	list    bool
	probe   bool // a list that only asks how far the cluster has come
	more    bool // a list that goes on with another
}

func newProxy(t *testing.T, to *rest.Config) *proxy {
	target, err := url.Parse(to.Host)
	require.NoError(t, err)
	transport, err := rest.TransportFor(to)
	require.NoError(t, err)
	p := &proxy{watches: map[*http.Request]running{}}
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
	is := request{method: r.Method, watch: q.Get("watch") == "true", initial: q.Get("sendInitialEvents") == "true", more: q.Has("continue")}
	is.from, _ = strconv.Atoi(q.Get("resourceVersion"))
	is.list = r.Method == http.MethodGet && !is.watch && strings.HasSuffix(r.URL.Path, "/applications") && !q.Has("fieldSelector")
	is.probe = is.list && q.Get("limit") == "1"
	if q.Has("limit") { // pages are small
		q.Set("limit", "1")
		r.URL.RawQuery = q.Encode()
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	p.mu.Lock()
	var act fault
	if p.trouble != nil {
		act = p.trouble(is)
	}
	if act == nil {
		act = func(w http.ResponseWriter, r *http.Request, forward http.Handler) { forward.ServeHTTP(w, r) }
	}
	if is.watch {
		ended := make(chan struct{})
		p.watches[r] = running{cancel, ended}
		defer close(ended)
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, r)
	}()
	act(w, r.WithContext(ctx), forward)
}

// fail makes what f says become of requests from now on; nil lets everything through.
func (p *proxy) fail(f func(request) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = f
}

// set makes the proxy answer as f says from now on; nil lets everything through.
func (p *proxy) set(f speech) {
	if f == nil {
		p.fail(nil)
		return
	}
	p.fail(func(r request) fault {
		if status := f(r); status != nil {
			return answer(status, "")
		}
		return nil
	})
}

// answer gives a status, and asks to come again after some seconds.
func answer(status *metav1.Status, retryAfter string) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(int(status.Code))
		_ = json.NewEncoder(w).Encode(status)
	}
}

// cut ends the watches that run. What happens after it is not shown by any of them.
func (p *proxy) cut() {
	p.mu.Lock()
	watches := slices.Collect(maps.Values(p.watches))
	p.mu.Unlock()
	for _, w := range watches {
		w.cancel()
	}
	for _, w := range watches {
		<-w.ended
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
	switch {
	case r.watch && !r.initial:
		return failure(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
	case r.probe:
		return nil
	}
	return blind(r)
}

// forgotten says to a watch that wants to begin before a resource version that this is no longer known.
func forgotten(before int) speech {
	return func(r request) *metav1.Status {
		if r.watch && !r.initial && r.from < before {
			return failure(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
		}
		return nil
	}
}

// lose sets f, and ends the watches that run.
func (p *proxy) lose(f speech) {
	p.set(f)
	p.cut()
}
