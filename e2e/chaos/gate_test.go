package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// A gate stands between a program and its API server. It fails as it is told, and notes what
// the program deletes.
type gate struct {
	server *httptest.Server
	client *http.Client
	target *url.URL

	mu        sync.Mutex
	failure   *failure // nil lets everything through
	over      context.Context
	end       context.CancelFunc
	requests  int
	watches   map[*http.Request]context.CancelFunc
	deletions []deletion
}

// A deletion is one that a program has asked for, whatever came of it.
type deletion struct {
	path   string
	origin string // the UID of the original that the object said it was a copy of
	uid    string
}

// A failure befalls some of the requests of a kind.
type failure struct {
	of    func(*http.Request) bool
	share int  // of ten
	cuts  bool // watches are ended, again and again
	act   func(g *gate, w http.ResponseWriter, r *http.Request, forward http.Handler)
}

// failures are those of an API server, and of what stands in front of it.
var failures = map[string]failure{
	"conflicts":        {writes, 5, false, says(http.StatusConflict, metav1.StatusReasonConflict, "")},
	"refuses":          {anything, 4, false, says(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "")},
	"is busy":          {anything, 6, false, says(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "1")},
	"fails":            {anything, 5, false, says(http.StatusInternalServerError, metav1.StatusReasonInternalError, "")},
	"has expired":      {isWatch, 9, true, says(http.StatusGone, metav1.StatusReasonExpired, "")},
	"expires":          {isWatch, 9, true, expires},
	"drops watches":    {isWatch, 0, true, nil},
	"hangs":            {anything, 10, false, hangs},
	"resets":           {anything, 5, false, resets},
	"answers half":     {anything, 5, false, answersHalf},
	"loses its answer": {writes, 6, false, losesAnswer},
}

func failureNames() []string { return slices.Sorted(maps.Keys(failures)) }

func writes(r *http.Request) bool   { return r.Method != http.MethodGet }
func anything(*http.Request) bool   { return true }
func isWatch(r *http.Request) bool  { return r.URL.Query().Get("watch") == "true" }
func isDelete(r *http.Request) bool { return r.Method == http.MethodDelete }

// says answers with a status, and in how many seconds to come again.
func says(code int32, reason metav1.StatusReason, retryAfter string) func(*gate, http.ResponseWriter, *http.Request, http.Handler) {
	return func(_ *gate, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(int(code))
		_ = json.NewEncoder(w).Encode(status(code, reason))
	}
}

func status(code int32, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: "the gate says so",
	}
}

// expires takes a watch, and then says within it that its version is no longer known.
func expires(_ *gate, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "ERROR", "object": status(http.StatusGone, metav1.StatusReasonExpired)})
}

// hangs answers nothing until its client or the failure has gone.
func hangs(g *gate, _ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body)
	select {
	case <-r.Context().Done():
	case <-g.gone():
	}
	panic(http.ErrAbortHandler)
}

func resets(*gate, http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// losesAnswer has the request done, and says nothing of it.
func losesAnswer(_ *gate, _ http.ResponseWriter, r *http.Request, forward http.Handler) {
	forward.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// answersHalf has the request done, and closes the connection amid the answer.
func answersHalf(_ *gate, w http.ResponseWriter, r *http.Request, forward http.Handler) {
	if isWatch(r) { // whose answer has no end
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"Appl`)
	} else {
		whole := httptest.NewRecorder()
		forward.ServeHTTP(whole, r)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(whole.Code)
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
	}
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// newGate opens a gate to a cluster, with an administrator's rights, and writes a kubeconfig
// that leads to it.
func newGate(t *testing.T, c *stack.Cluster, dir string) (*gate, string) {
	target, err := url.Parse(c.URL())
	require.NoError(t, err)
	transport, err := rest.TransportFor(c.RESTConfig())
	require.NoError(t, err)
	g := &gate{client: &http.Client{Transport: transport}, target: target, watches: map[*http.Request]context.CancelFunc{}}
	g.over, g.end = context.WithCancel(context.Background())
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	g.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, forward) }))
	g.server.Config.ErrorLog = nil
	t.Cleanup(func() {
		g.set("")
		g.cut()
		g.server.CloseClientConnections()
		g.server.Close()
	})
	path := filepath.Join(dir, "kubeconfig")
	config := api.NewConfig()
	config.Clusters["gate"] = &api.Cluster{Server: g.server.URL}
	config.Contexts["gate"] = &api.Context{Cluster: "gate"}
	config.CurrentContext = "gate"
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	return g, path
}

func (g *gate) serve(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	if isDelete(r) {
		g.note(r)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r = r.WithContext(ctx)
	g.mu.Lock()
	g.requests++
	f := g.failure
	befalls := f != nil && f.of(r) && g.requests%10 < f.share
	if isWatch(r) {
		g.watches[r] = cancel
	}
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.watches, r)
	}()
	if befalls {
		f.act(g, w, r, forward)
		return
	}
	forward.ServeHTTP(w, r)
}

// set has a failure befall requests from now on; "" is none.
func (g *gate) set(name string) {
	f, ok := failures[name]
	if !ok {
		g.fail(nil)
		return
	}
	g.fail(&f)
}

func (g *gate) fail(f *failure) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end()
	g.failure = f
	g.over, g.end = context.WithCancel(context.Background())
	if f != nil && f.cuts {
		go g.cutAgain(g.over)
	}
}

// gone is closed when the failure of now is over.
func (g *gate) gone() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.over.Done()
}

func (g *gate) cutAgain(ctx context.Context) {
	again := time.NewTicker(300 * time.Millisecond)
	defer again.Stop()
	for {
		g.cut()
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// cut ends the watches that run.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, cancel := range g.watches {
		cancel()
	}
}

// note notes what is to be deleted, and whose copy it is.
func (g *gate) note(r *http.Request) {
	if !strings.Contains(r.URL.Path, "/applications") && !strings.Contains(r.URL.Path, "/appprojects") && !strings.Contains(r.URL.Path, "/secrets") {
		return
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var options metav1.DeleteOptions
	_ = json.Unmarshal(body, &options)
	d := deletion{path: r.URL.Path}
	answer, err := g.client.Get(g.target.JoinPath(r.URL.Path).String())
	if err == nil {
		defer answer.Body.Close()
		var o metav1.PartialObjectMetadata
		if answer.StatusCode == http.StatusNotFound || json.NewDecoder(answer.Body).Decode(&o) != nil {
			return // nothing is there to delete
		}
		d.uid, d.origin = string(o.UID), o.Annotations[sourceMark]
	}
	if p := options.Preconditions; p != nil && p.UID != nil && string(*p.UID) != d.uid {
		return // it is refused
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deletions = append(g.deletions, d)
}

// noted returns what the program has deleted.
func (g *gate) noted() []deletion {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.deletions)
}
