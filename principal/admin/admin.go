// Package admin is what a user may ask of a running principal: how its agents stand, in
// what both sides of them differ, what could not be done and why, and what waits for his
// approval.
//
// It is HTTP with JSON, on an address that only those reach who may: access is being on the
// loopback interface of the principal's host or pod, or being let to its socket. It proves
// nobody's identity, and is guarded against web pages in a browser that is there too.
package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// Config is what a Server is made of. Principal and Log are needed.
type Config struct {
	Principal *principal.Principal
	Log       *zap.Logger // is told of every change that a user makes
	// Applicants returns who waits to be registered, by name; nil is nobody.
	Applicants func() []Applicant
	// Self says of the principal's program what only that knows: its version, protocol and
	// certificate; nil is nothing.
	Self func() Self
	// Expires returns when the certificate of an agent expires, as Agent has it; nil is never known.
	Expires func(agent string) time.Time
}

// A Server answers users.
type Server struct {
	cfg Config
}

// New returns a Server, which does nothing until it is asked.
func New(c Config) (*Server, error) {
	if c.Principal == nil || c.Log == nil {
		return nil, errors.New("admin: principal and log are needed")
	}
	return &Server{cfg: c}, nil
}

// Bounds on what one request may take.
const (
	maxBody   = 1 << 20
	maxHeader = 16 << 10
	patience  = 15 * time.Second // for a request to be read
	longest   = 5 * time.Minute  // for it to be answered
)

// Serve answers requests on l until ctx is done, and returns its cause, or fails. It closes
// l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadTimeout: patience, WriteTimeout: longest, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    zap.NewStdLog(s.cfg.Log.Named("admin")),
	}
	stop := context.AfterFunc(ctx, func() { server.Close() }) // what is being answered is cut short
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin: serve: %w", err)
	}
	return context.Cause(ctx)
}

// Handler answers requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, f := range map[string]func(*http.Request) (any, error){
		"GET /v1/agents":                                       s.agents,
		"GET /v1/agents/{agent}":                               s.agent,
		"POST /v1/agents/{agent}/approve-deletions":            s.approve,
		"POST /v1/agents/{agent}/release-deletions":            s.release,
		"GET /v1/agents/{agent}/verify":                        s.verify,
		"GET /v1/agents/{agent}/plan":                          s.plan,
		"POST /v1/agents/{agent}/adopt":                        s.adopt,
		"GET /v1/explain":                                      s.tell,
		"GET /v1/applicants":                                   s.applicants,
		"GET /v1/letters":                                      s.letters,
		"GET /v1/agents/{agent}/letters/{side}/{id}":           s.letter,
		"POST /v1/agents/{agent}/letters/{side}/{id}/{change}": s.change,
	} {
		mux.HandleFunc(pattern, s.answer(f))
	}
	return guard(mux)
}

// answer answers with what f returns.
func (s *Server) answer(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		v, err := f(r)
		if err != nil {
			say(w, codeOf(err), Failure{s.explain(cmp.Or(r.PathValue("agent"), r.URL.Query().Get("agent")), err).Error()})
			return
		}
		say(w, http.StatusOK, v)
	}
}

func say(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the caller has gone
}

// errNoObject says that nobody knows of an object.
var errNoObject = errors.New("nothing is known of it")

// errRequest says that a request is not as it must be.
var errRequest = errors.New("bad request")

func codeOf(err error) int {
	for code, those := range map[int][]error{
		http.StatusBadRequest:         {errRequest},
		http.StatusNotFound:           {principal.ErrUnknown, inquiry.ErrNoLetter, errNoObject},
		http.StatusConflict:           {principal.ErrNothing, principal.ErrChanged, principal.ErrThere},
		http.StatusServiceUnavailable: {principal.ErrNotYet, transport.ErrAway},
	} {
		for _, e := range those {
			if errors.Is(err, e) {
				return code
			}
		}
	}
	return http.StatusInternalServerError
}

// read reads the body of a request.
func read(r *http.Request, to any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("admin: %w: body: %w", errRequest, err)
	}
	return nil
}
