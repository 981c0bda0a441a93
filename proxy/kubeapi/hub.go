package kubeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi/status"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// Service is the name of the service that a Spoke is.
const Service = "kubeapi"

const (
	// openTime bounds how long it may take to find out whether an agent is there.
	openTime = time.Second
	// retryAfter is after what time a caller may try again.
	retryAfter = 10 * time.Second
	// quietTime is after what time a silent caller is asked whether it is there, and how long
	// it has to answer.
	quietTime = 15 * time.Second
)

// HubConfig is what a Hub is made of. All fields are needed.
type HubConfig struct {
	// Listen is the host:port to listen on.
	Listen string
	// TLS is used for every connection. It asks for certificates, if Name is to see any, and
	// offers "h2" and "http/1.1".
	TLS *tls.Config
	// Name returns which agent's cluster the caller is let to who has asked at a time. What its
	// error says is told to the caller. A Callers has one.
	Name func(r *http.Request, at time.Time) (agent string, err error)
	// Open opens streams of Service.
	Open proxy.Opener
	Log  *zap.Logger
}

// A Hub serves the APIs of spokes on the hub. It is used once.
type Hub struct {
	cfg    HubConfig
	bounds *bounds
	guests guests
	counts counts
	out    forwarder
}

// NewHub returns a Hub, which does nothing until Run is called.
func NewHub(c HubConfig) (*Hub, error) {
	switch {
	case c.TLS == nil, c.Name == nil, c.Open == nil, c.Log == nil:
		return nil, errors.New("kubeapi: TLS, name, open and log are needed")
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return nil, fmt.Errorf("kubeapi: listen on %q: %w", c.Listen, err)
	}
	h := &Hub{cfg: c, bounds: newBounds()}
	h.out = newForwarder(&http.Transport{
		DialContext:            h.dial,
		DisableKeepAlives:      true, // one stream for each request
		DisableCompression:     true, // what is compressed is so for the caller
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: headSize,
	}, quietly(c.Log))
	return h, nil
}

// quietly returns a log for what the library says of single connections.
func quietly(l *zap.Logger) *log.Logger {
	std, _ := zap.NewStdLogAt(l, zap.DebugLevel) // the level is one that there is
	return std
}

// Run listens and serves until ctx is done, and returns its cause, or fails.
func (h *Hub) Run(ctx context.Context) error {
	alive := net.KeepAliveConfig{Enable: true, Idle: quietTime, Interval: quietTime / 3, Count: 3}
	l, err := (&net.ListenConfig{KeepAliveConfig: alive}).Listen(ctx, "tcp", h.cfg.Listen)
	if err != nil {
		return fmt.Errorf("kubeapi: %w", err)
	}
	return h.Serve(ctx, l)
}

// Serve is Run on a listener that is there, which it closes.
func (h *Hub) Serve(ctx context.Context, l net.Listener) error {
	err := serve(ctx, &http.Server{
		Handler:     h,
		TLSConfig:   h.cfg.TLS,
		IdleTimeout: 2 * time.Minute,
		HTTP2:       &http.HTTP2Config{SendPingTimeout: quietTime, PingTimeout: quietTime, MaxConcurrentStreams: MaxOfCaller},
		ErrorLog:    quietly(h.cfg.Log),
	}, l)
	if ctx.Err() == nil {
		return fmt.Errorf("kubeapi: serve on %s: %w", h.cfg.Listen, err)
	}
	return context.Cause(ctx)
}

// Count returns how many requests have had an outcome.
func (h *Hub) Count(o Outcome) uint64 { return h.counts.of(o) }

// UnderWay returns how many requests are.
func (h *Hub) UnderWay() int { return h.bounds.underWay() }

// ServeHTTP implements http.Handler.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !wanted(r) {
		h.refuse(w, Invalid, http.StatusBadRequest, metav1.StatusReasonBadRequest, "this is no request of the Kubernetes API")
		return
	}
	one, err := h.welcome(r)
	if err != nil {
		h.cfg.Log.Debug("a caller of a spoke's API does not prove who it is", zap.String("from", r.RemoteAddr), zap.Error(err))
		h.refuse(w, Unproven, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized: "+err.Error())
		return
	}
	defer h.guests.left(one)
	h.serve(w, one.request, one.agent)
}

// serve answers a request of who is let to an agent's cluster.
func (h *Hub) serve(w http.ResponseWriter, r *http.Request, agent string) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	done, err := h.bounds.begin(caller{agent, host})
	if err != nil {
		h.refuse(w, Busy, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, err.Error())
		return
	}
	defer done()
	defer h.broken(r)
	h.out.pass(w, r, passage{
		aim: func(q *httputil.ProxyRequest) {
			q.Out.URL.Scheme, q.Out.URL.Host, q.Out.Host = "http", agent, ""
		},
		check: h.check,
		fail:  func(w http.ResponseWriter, r *http.Request, err error) { h.fail(w, r, agent, err) },
	})
}

// dial opens the stream of a request. The address is that of aim.
func (h *Hub) dial(ctx context.Context, _, address string) (net.Conn, error) {
	agent, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, openTime, transport.ErrAway)
	defer stop()
	c, err := h.cfg.Open(ctx, agent, Service)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnopened, err)
	}
	return c, nil
}

// errUnopened is why there is no answer where there is no stream.
var errUnopened = errors.New("no stream is opened")

// errElsewhere is why an answer is withheld.
var errElsewhere = errors.New("the answer leads to another host")

// check looks at what an agent answers.
func (h *Hub) check(a *http.Response) error {
	if a.StatusCode/100 == 3 {
		to, err := url.Parse(a.Header.Get("Location"))
		if err != nil || to.Scheme != "" || to.Host != "" || to.User != nil {
			return errElsewhere
		}
	}
	drop(a.Header, answered)
	h.counts.add(Answered)
	return nil
}

// broken counts an answer that has broken off, unless it is the caller who has gone. It is
// deferred.
func (h *Hub) broken(r *http.Request) {
	if v := recover(); v != nil {
		if r.Context().Err() == nil {
			h.counts.add(Broken)
		}
		panic(v)
	}
}

// fail answers a request that has no answer.
func (h *Hub) fail(w http.ResponseWriter, r *http.Request, agent string, err error) {
	switch {
	case r.Context().Err() != nil:
		h.counts.add(Gone)
		panic(http.ErrAbortHandler)
	case errors.Is(err, transport.ErrUnknown):
		// It must not look as if it were the object that does not exist.
		h.refuse(w, Unknown, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("agent %s is not registered", agent))
	case errors.Is(err, errElsewhere):
		h.refuse(w, Failed, http.StatusBadGateway, metav1.StatusReasonInternalError, fmt.Sprintf("agent %s: %v", agent, err))
	case errors.Is(err, transport.ErrAway), errors.Is(err, transport.ErrClosed):
		h.refuse(w, Away, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, fmt.Sprintf("agent %s is not connected: its cluster cannot be reached now", agent))
	case errors.Is(err, errUnopened):
		h.refuse(w, Failed, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, fmt.Sprintf("agent %s cannot be asked: %v", agent, err))
	default: // the library has several errors for a stream that is closed at once
		h.refuse(w, Failed, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, fmt.Sprintf("agent %s gives no answer (%v): live access may be off there, see its --enable-resource-proxy", agent, err))
	}
	h.cfg.Log.Debug("a request of a spoke's API has no answer", zap.String("agent", agent), zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Error(err))
}

func (h *Hub) refuse(w http.ResponseWriter, o Outcome, code int, reason metav1.StatusReason, message string) {
	h.counts.add(o)
	wait := time.Duration(0)
	if code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests {
		wait = retryAfter
	}
	status.Write(w, code, reason, message, wait)
}
