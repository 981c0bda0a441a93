package kubestore

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// longestWait bounds what an API server may ask for.
	longestWait = 5 * time.Minute
	// probeTime is how long the first request after a wait may take before another is made.
	probeTime = 5 * time.Second
	// quietFor is how long the log is told nothing more of it.
	quietFor = 10 * time.Minute
)

// A throttle makes requests wait when the API server says, by status 429 with Retry-After,
// that it has too many: none is made before the time that it says, and then one. Only once
// that is answered otherwise are all others made. A client alone obeys for each request on
// its own, so that dozens come again together, and forgets it when a request's time is up.
type throttle struct {
	next http.RoundTripper
	log  *zap.Logger

	mu     sync.Mutex
	until  time.Time // no request before; zero if there is no need to wait
	probe  time.Time // when the one was made that goes ahead; zero if there is none
	logged time.Time // when the log was last told
	change chan struct{}
}

func newThrottle(next http.RoundTripper, log *zap.Logger) *throttle {
	return &throttle{next: next, log: log, change: make(chan struct{})}
}

// RoundTrip implements http.RoundTripper.
func (t *throttle) RoundTrip(r *http.Request) (*http.Response, error) {
	ahead, err := t.enter(r.Context())
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	answer, err := t.next.RoundTrip(r)
	t.leave(ahead, answer)
	return answer, err
}

// CloseIdleConnections is called by http.Client's.
func (t *throttle) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// enter returns when a request may be made, and whether it is the one that goes ahead.
func (t *throttle) enter(ctx context.Context) (ahead bool, err error) {
	for {
		t.mu.Lock()
		now, until, change := time.Now(), t.until, t.change
		if until.IsZero() {
			t.mu.Unlock()
			return false, nil
		}
		again := until
		if !now.Before(until) {
			if t.probe.IsZero() || now.Sub(t.probe) > probeTime {
				t.probe = now
				t.mu.Unlock()
				return true, nil
			}
			again = t.probe.Add(probeTime)
		}
		t.mu.Unlock()
		timer := time.NewTimer(again.Sub(now) + time.Millisecond)
		select {
		case <-timer.C:
		case <-change:
		case <-ctx.Done():
			timer.Stop()
			return false, fmt.Errorf("the API server has too many requests, and asks to wait until %s: %w",
				until.Format(time.RFC3339), context.Cause(ctx))
		}
		timer.Stop()
	}
}

// leave takes note of an answer, nil if there is none.
func (t *throttle) leave(ahead bool, answer *http.Response) {
	wait := told429(answer)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case wait > 0:
		now := time.Now()
		if now.Sub(t.logged) > quietFor {
			t.log.Warn("the API server has too many requests: it is asked for nothing as long as it says", zap.Duration("wait", wait))
			t.logged = now
		}
		if until := now.Add(wait); until.After(t.until) {
			t.until = until
		}
	case !ahead:
		return // it was made before there was anything to wait for
	default:
		t.until = time.Time{}
	}
	if ahead {
		t.probe = time.Time{}
	}
	close(t.change)
	t.change = make(chan struct{})
}

// told429 returns how long an answer asks to wait.
func told429(answer *http.Response) time.Duration {
	if answer == nil || answer.StatusCode != http.StatusTooManyRequests {
		return 0
	}
	s, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil || s <= 0 {
		return 0
	}
	return min(time.Duration(s)*time.Second, longestWait)
}
