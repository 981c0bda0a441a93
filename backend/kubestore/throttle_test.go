package kubestore

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A busyServer answers every request after a moment, by 429 until it has time.
type busyServer struct {
	free   time.Time
	again  string // Retry-After
	hangs  int    // how many requests, once the first have been told to wait, are never answered
	mu     sync.Mutex
	came   []time.Time
	throws bool // an error in place of each answer once there is time
}

// RoundTrip implements http.RoundTripper.
func (s *busyServer) RoundTrip(r *http.Request) (*http.Response, error) {
	now := time.Now()
	s.mu.Lock()
	hang := s.hangs > 0 && len(s.came) > 0 && now.After(s.came[0])
	if hang {
		s.hangs--
	}
	s.came = append(s.came, now)
	s.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	time.Sleep(10 * time.Millisecond)
	switch {
	case now.Before(s.free):
		return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {s.again}}}, nil
	case s.throws:
		return nil, errors.New("connection reset")
	}
	return &http.Response{StatusCode: http.StatusOK}, nil
}

// ask makes requests at the same time, each again as soon as it is told to wait, and
// returns once all are done.
func ask(t *throttle, n int) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for {
				r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://x", nil)
				answer, err := t.RoundTrip(r)
				if err != nil || answer.StatusCode == http.StatusOK {
					return
				}
			}
		})
	}
	all.Wait()
}

func TestThrottledRequestsComeAgainOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zapcore.InfoLevel)
		s := &busyServer{free: time.Now().Add(time.Minute), again: "10"}
		ask(newThrottle(s, zap.New(core)), 64)
		require.Len(t, s.came, 64+5+64, "all at first, then one every 10 s for a minute, then all")
		for i, at := range s.came[64 : 64+5] {
			require.GreaterOrEqual(t, at.Sub(s.came[0]), time.Duration(i+1)*10*time.Second)
		}
		require.Equal(t, 1, log.Len())
	})
}

func TestThrottleIsNoneWithoutATime(t *testing.T) {
	for _, again := range []string{"", "soon", "-1", "0"} {
		synctest.Test(t, func(t *testing.T) {
			s := &busyServer{free: time.Now().Add(time.Second), again: again}
			ask(newThrottle(s, zap.NewNop()), 1)
			require.Greater(t, len(s.came), 50, "it is the caller's to wait")
		})
	}
}

func TestThrottleOpensByAnyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &busyServer{free: time.Now().Add(time.Second), again: "1", throws: true}
		ask(newThrottle(s, zap.NewNop()), 10)
		require.Len(t, s.came, 10+10)
	})
}

func TestThrottleWaitsNoLongerThanFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &busyServer{free: began.Add(time.Second), again: "99999"}
		ask(newThrottle(s, zap.NewNop()), 1)
		require.Less(t, time.Since(began), longestWait+time.Second)
	})
}

func TestAThrottledRequestEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &busyServer{free: time.Now().Add(time.Hour), again: "60"}
		th := newThrottle(s, zap.NewNop())
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x", nil)
		_, err := th.RoundTrip(r)
		require.NoError(t, err, "it is told to wait")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = th.RoundTrip(r.WithContext(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "too many requests")
		require.Len(t, s.came, 1)
	})
}

// TestTheOneThatGoesAheadMayHang has it never answered: another goes ahead soon.
func TestTheOneThatGoesAheadMayHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &busyServer{free: began.Add(500 * time.Millisecond), again: "1", hangs: 1}
		th := newThrottle(s, zap.NewNop())
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://x", nil)
		_, err := th.RoundTrip(r)
		require.NoError(t, err)
		var hung sync.WaitGroup
		hung.Go(func() { _, _ = th.RoundTrip(r) })
		time.Sleep(2 * time.Second)
		ask(th, 10)
		require.Less(t, time.Since(began), time.Second+probeTime+time.Second)
		cancel()
		hung.Wait()
	})
}
