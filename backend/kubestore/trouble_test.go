package kubestore

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// The faults of an API server and of what stands in front of it.

// hang accepts a request and never answers. A server notices that its client has gone only
// once it has read all that was sent.
func hang(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// headersOnly answers that all is well, and then nothing.
func headersOnly(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// reset closes the connection before there is an answer.
func reset(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// resetMidBody has the request answered, and closes the connection amid the answer.
func resetMidBody(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	whole := httptest.NewRecorder()
	if r.URL.Query().Get("watch") == "true" { // its answer has no end
		w.WriteHeader(http.StatusOK)
		fmt.Fprint(w, `{"type":"ADDED","object":{"kind":"Appl`)
	} else {
		forward.ServeHTTP(whole, r)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(whole.Code)
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
	}
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// slowly passes a request on after half of the time that there is for it.
func slowly(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	select {
	case <-time.After(troubleTime / 2):
	case <-r.Context().Done():
	}
	forward.ServeHTTP(w, r)
}

// mute has a watch answered, and shows nothing of what it shows.
func mute(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	forward.ServeHTTP(&muted{w}, r)
}

type muted struct{ http.ResponseWriter }

func (m *muted) Write(p []byte) (int, error) { return len(p), nil }
func (m *muted) Unwrap() http.ResponseWriter { return m.ResponseWriter }

func says(code int32, reason metav1.StatusReason, retryAfter string) fault {
	return answer(failure(code, reason, "told so"), retryAfter)
}

// What a fault befalls.
func reading(r request) bool  { return r.list || r.watch }
func watching(r request) bool { return r.watch }
func listing(r request) bool  { return r.list }
func goingOn(r request) bool  { return r.more }
func writing(r request) bool  { return r.method != http.MethodGet }

// A plight is a fault that befalls the first requests of a kind.
type plight struct {
	times int
	of    func(request) bool
	fault fault

	mu     sync.Mutex
	befell int
	begun  chan struct{} // closed once it has befallen one
}

func newPlight(times int, of func(request) bool, f fault) *plight {
	return &plight{times: times, of: of, fault: f, begun: make(chan struct{})}
}

func (p *plight) befall(r request) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.of(r) || p.befell == p.times {
		return nil
	}
	if p.befell++; p.befell == 1 {
		close(p.begun)
	}
	return p.fault
}

// troubleTime is what there is for everything.
const troubleTime = 2 * time.Second

// troubled returns a store of one namespace behind p that soon loses its patience, and its
// log.
func (c cluster) troubled(t *testing.T, p *proxy, ns string) (*Store, *observer.ObservedLogs) {
	core, log := observer.New(zapcore.InfoLevel)
	return c.behind(t, p, func(cfg *Config) {
		cfg.Namespace, cfg.Patience, cfg.Timeout, cfg.Silence, cfg.Log = ns, troubleTime, troubleTime, troubleTime, zap.New(core)
	}), log
}

// TestTroubleWithReadingHeals has users change things while lists and watches fail: all is
// shown in the end, nothing is shown to be gone that is not, and the log is not flooded.
func TestTroubleWithReadingHeals(t *testing.T) {
	c := startCluster(t)
	gone, few := says(http.StatusGone, metav1.StatusReasonExpired, ""), 4
	for name, trouble := range map[string]struct {
		times int
		of    func(request) bool
		fault fault
		plain bool // the API server streams no lists, and has to give one
	}{
		"watch expired":                  {1, watching, gone, false},
		"watch expired, every time":      {few, watching, gone, false},
		"list expired":                   {few, listing, gone, true},
		"list expired amid its pages":    {few, goingOn, gone, true},
		"throttled":                      {few, reading, says(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "1"), false},
		"throttled, not told until when": {few, reading, says(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, ""), false},
		"conflict":                       {few, reading, says(http.StatusConflict, metav1.StatusReasonConflict, ""), false},
		"internal error":                 {few, reading, says(http.StatusInternalServerError, metav1.StatusReasonInternalError, ""), false},
		"not available":                  {few, reading, says(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, ""), false},
		"not there":                      {few, reading, says(http.StatusNotFound, metav1.StatusReasonNotFound, ""), false},
		"not allowed":                    {few, reading, says(http.StatusForbidden, metav1.StatusReasonForbidden, ""), false},
		"reset":                          {few, reading, reset, false},
		"list reset amid its answer":     {few, listing, resetMidBody, true},
		"watch reset amid its answer":    {few, watching, resetMidBody, false},
		"list never answered":            {1, listing, hang, true},
		"watch never answered":           {2, watching, hang, false},
		"watch without anything":         {2, watching, headersOnly, false},
		"watch gone silent":              {2, watching, mute, false},
		"slow":                           {1, reading, slowly, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			troubleWithReading(t, c, newPlight(trouble.times, trouble.of, trouble.fault), trouble.plain)
		})
	}
}

func troubleWithReading(t *testing.T, c cluster, trouble *plight, plain bool) {
	p, ns := newProxy(t, c.RESTConfig()), c.namespace()
	u := users{t, c.Dynamic(), p}
	u.Edit(app(ns, "edited").Key, func(o *resource.Object) { o.Parts[resource.Spec] = spec })
	u.Edit(app(ns, "deleted").Key, func(o *resource.Object) { o.Parts[resource.Spec] = spec })
	if plain {
		p.set(older(pass))
	}
	s, log := c.troubled(t, p, ns)
	seen := events(t, s, ns)
	var told atomic.Bool
	p.fail(func(r request) fault {
		switch f := trouble.befall(r); {
		case f != nil:
			return f
		case plain && r.initial:
			return answer(older(pass)(r), "")
		case plain && r.watch && !told.Swap(true):
			return says(http.StatusGone, metav1.StatusReasonExpired, "")
		}
		return nil
	})
	p.cut()
	<-trouble.begun // so what ran before shows nothing more
	u.Edit(app(ns, "edited").Key, func(o *resource.Object) { o.Parts[resource.Meta] = label("blue") })
	u.Edit(app(ns, "new").Key, func(o *resource.Object) { o.Parts[resource.Spec] = spec })
	u.Delete(app(ns, "deleted").Key)
	for shown := map[string]bool{}; len(shown) < 3; {
		select {
		case e := <-seen:
			switch {
			case e.Gone != nil:
				require.Equal(t, "deleted", e.Gone.Key.Name, "nothing else was deleted")
				shown["deleted"] = true
			case e.Put.Key.Name == "new":
				shown["new"] = true
			case e.Put.Parts[resource.Meta] == label("blue"):
				shown["edited"] = true
			}
		case <-time.After(time.Minute):
			require.Fail(t, "it has not healed", "shown: %v; log: %v", shown, log.All())
		}
	}
	require.LessOrEqual(t, log.Len(), 4, "%v", log.All())
}

// TestTroubleWithWritingHeals has writes and removals fail: their outcome says that it may
// go away, no watch shows anything that is not so, and the same again succeeds.
func TestTroubleWithWritingHeals(t *testing.T) {
	c := startCluster(t)
	for name, trouble := range map[string]struct {
		fault fault
		made  bool // the change is, all the same
	}{
		"conflict that is none":  {says(http.StatusConflict, metav1.StatusReasonConflict, ""), false},
		"already there":          {says(http.StatusConflict, metav1.StatusReasonAlreadyExists, ""), false},
		"throttled":              {says(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "3"), false},
		"internal error":         {says(http.StatusInternalServerError, metav1.StatusReasonInternalError, ""), false},
		"not available":          {says(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "3"), false},
		"not allowed":            {says(http.StatusForbidden, metav1.StatusReasonForbidden, ""), false},
		"reset":                  {reset, false},
		"reset amid its answer":  {resetMidBody, true},
		"never answered":         {hang, false},
		"headers without a body": {headersOnly, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, ns := newProxy(t, c.RESTConfig()), c.namespace()
			s, log := c.troubled(t, p, ns)
			seen := events(t, s, ns)
			for _, act := range []string{"create", "change", "remove"} {
				do := func() error {
					o := mirrored(s, app(ns, "a").Key)
					if act == "remove" {
						return s.Remove(t.Context(), o.Key, o.Version)
					}
					want := app(ns, "a")
					want.Version = o.Version
					want.Parts[resource.Meta] = label(act)
					_, err := s.Write(t.Context(), want)
					return err
				}
				p.fail(newPlight(1, writing, trouble.fault).befall)
				requireMeans(t, nil, do())
				if trouble.made {
					<-seen // and now it is known
				} else {
					require.Empty(t, seen)
					eventually(t, do)
					<-seen
				}
			}
			require.LessOrEqual(t, log.Len(), 2, "%v", log.All())
		})
	}
}

// eventually does something again until it succeeds.
func eventually(t *testing.T, do func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err := do(); err != nil; err = do() {
		require.NoError(t, ctx.Err(), "%v", err)
		requireMeans(t, nil, err)
	}
}

// TestOneObjectWhoseWritesHangDelaysNoOther writes two hundred objects beside one whose
// writes are never answered.
func TestOneObjectWhoseWritesHangDelaysNoOther(t *testing.T) {
	c := startCluster(t)
	s, p := c.store(t, func(cfg *Config) { cfg.Timeout = 10 * time.Second })
	ns := c.namespace()
	first := newPlight(1, writing, hang)
	p.fail(first.befall)
	outcome := make(chan error)
	go func() {
		_, err := s.Write(t.Context(), app(ns, "hangs"))
		outcome <- err
	}()
	<-first.begun
	var all sync.WaitGroup
	var failed atomic.Int64
	for i := range 200 {
		all.Go(func() {
			if _, err := s.Write(t.Context(), app(ns, fmt.Sprint("a", i))); err != nil {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	require.Zero(t, failed.Load())
	err := <-outcome
	requireMeans(t, nil, err)
	require.ErrorContains(t, err, "has not answered within 10s")
	eventually(t, func() error { _, err := s.Write(t.Context(), app(ns, "hangs")); return err })
}

// TestThrottledWritesWaitAsTheyAreTold has fifty writers throttled for some seconds: after
// the first moment they come again one at a time, no sooner than they are told, and then all.
func TestThrottledWritesWaitAsTheyAreTold(t *testing.T) {
	c := startCluster(t)
	s, p := c.store(t)
	ns := c.namespace()
	const writers, busy = 50, 3500 * time.Millisecond
	var mu sync.Mutex
	var refused []time.Time
	p.fail(func(r request) fault {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); writing(r) && (len(refused) == 0 || now.Sub(refused[0]) < busy) {
			refused = append(refused, now)
			return says(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "1")
		}
		return nil
	})
	var all sync.WaitGroup
	errs := make(chan error, writers)
	for i := range writers {
		all.Go(func() {
			_, err := s.Write(t.Context(), app(ns, fmt.Sprint("a", i)))
			errs <- err
		})
	}
	all.Wait()
	for range writers {
		require.NoError(t, <-errs)
	}
	for i, at := range refused[1:] {
		if at.Sub(refused[0]) > time.Second {
			require.GreaterOrEqual(t, at.Sub(refused[i]), time.Second-time.Millisecond, "one at a time, as they were told")
		}
	}
}
