package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi/status"
)

// SpokeConfig is what a Spoke is made of. All fields are needed.
type SpokeConfig struct {
	// REST says where the API server is, and who the agent is there. What it names as files is
	// read anew as they change.
	REST *rest.Config
	// Guard decides on every request, whose headers do not say on whose behalf it comes any
	// more: it hands it on, changed or not, or answers it itself.
	Guard func(http.Handler) http.Handler
	Log   *zap.Logger
}

// A Spoke serves the API of the agent's cluster to the hub. It is used once.
type Spoke struct {
	cfg     SpokeConfig
	server  *url.URL // the API server
	door    *proxy.Door
	counts  counts
	out     forwarder
	guarded http.Handler
	serving atomic.Int64
	idle    func() // closes connections that are kept
}

// NewSpoke returns a Spoke, whose Serve waits for Run.
func NewSpoke(c SpokeConfig) (*Spoke, error) {
	if c.REST == nil || c.Guard == nil || c.Log == nil {
		return nil, errors.New("kubeapi: the API server, a guard and a log are needed")
	}
	server, to, idle, err := reach(c.REST)
	if err != nil {
		return nil, fmt.Errorf("kubeapi: the API server %s: %w", c.REST.Host, err)
	}
	s := &Spoke{cfg: c, server: server, door: proxy.NewDoor(), out: newForwarder(to, quietly(c.Log)), idle: idle}
	s.guarded = c.Guard(http.HandlerFunc(s.pass))
	return s, nil
}

// Serve is a proxy.Service: it takes over a stream, on which the hub sends a request.
func (s *Spoke) Serve(ctx context.Context, c net.Conn) { s.door.Put(ctx, c) }

// Run serves until ctx is done, and returns its cause.
func (s *Spoke) Run(ctx context.Context) error {
	defer s.idle()
	return serve(ctx, &http.Server{Handler: s, ErrorLog: quietly(s.cfg.Log)}, s.door)
}

// Count returns how many requests have had an outcome, of Answered, Invalid, Gone, Failed and
// Broken. A Guard's answers are none of these.
func (s *Spoke) Count(o Outcome) uint64 { return s.counts.of(o) }

// UnderWay returns how many requests are.
func (s *Spoke) UnderWay() int { return int(s.serving.Load()) }

// ServeHTTP implements http.Handler.
func (s *Spoke) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serving.Add(1)
	defer s.serving.Add(-1)
	if !wanted(r) {
		s.counts.add(Invalid)
		status.Write(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "this is no request of the Kubernetes API", 0)
		return
	}
	strip(r.Header)
	s.guarded.ServeHTTP(w, r)
}

// pass passes on what the Guard has let through.
func (s *Spoke) pass(w http.ResponseWriter, r *http.Request) {
	defer s.broken(r)
	s.out.pass(w, r, passage{
		aim:   func(q *httputil.ProxyRequest) { q.SetURL(s.server) },
		check: func(*http.Response) error { s.counts.add(Answered); return nil },
		fail:  s.fail,
	})
}

// broken is that of a Hub.
func (s *Spoke) broken(r *http.Request) {
	if v := recover(); v != nil {
		if r.Context().Err() == nil {
			s.counts.add(Broken)
		}
		panic(v)
	}
}

// fail answers a request that the API server does not answer.
func (s *Spoke) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		s.counts.add(Gone)
		panic(http.ErrAbortHandler)
	}
	s.counts.add(Failed)
	s.cfg.Log.Warn("the API server does not answer a request of the hub's", zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Error(err))
	status.Write(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the agent cannot reach its API server: "+err.Error(), 5*time.Second)
}
