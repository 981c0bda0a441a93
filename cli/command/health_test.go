package command

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
)

func TestHealthTellsTheTruth(t *testing.T) {
	var reason error
	h := health(func() error { return reason })
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	code, text := ask("/readyz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "ok\n", text)

	reason = errors.New("the registry has not been listed")
	code, text = ask("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "the registry has not been listed\n", text)
	code, _ = ask("/livez")
	require.Equal(t, http.StatusOK, code, "a restart would not help")
	code, _ = ask("/debug/pprof/")
	require.Equal(t, http.StatusNotFound, code)
}

func TestStartedOnce(t *testing.T) {
	reason := errors.New("the hub has not been listed")
	h := health(func() error { return reason })
	ask := func(path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	require.Equal(t, http.StatusServiceUnavailable, ask("/startupz"))
	reason = nil
	require.Equal(t, http.StatusOK, ask("/startupz"))
	reason = errors.New("the store is full")
	require.Equal(t, http.StatusServiceUnavailable, ask("/readyz"))
	require.Equal(t, http.StatusOK, ask("/startupz"), "what has started stays so")
	require.Equal(t, http.StatusOK, ask("/livez"))
}

// A remote is away since a time.
type remote struct{ since time.Time }

func (r remote) Away() (time.Time, error) { return r.since, errors.New("connection refused") }

func TestWhyAProgramIsNotReadyYet(t *testing.T) {
	now := time.Unix(1000, 0)
	no, yes := func() error { return errors.New("nothing has been listed") }, func() error { return nil }
	require.EqualError(t, because(no, nil)(), "nothing has been listed")
	require.EqualError(t, because(no, remote{})(), "nothing has been listed")
	require.EqualError(t, because(no, remote{now})(), "nothing has been listed; the backend cannot be followed: connection refused")
	require.NoError(t, because(yes, remote{now})(), "within has the patience")
}

func TestABackendThatIsAwayForLongMakesUnready(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		on   backend.Remote
		want string // "" is ready
	}{
		"in this process":      {nil, ""},
		"there":                {remote{}, ""},
		"away for a moment":    {remote{now.Add(-30 * time.Second)}, ""},
		"away for a long time": {remote{now.Add(-90 * time.Second)}, "the backend cannot be followed, for 1m30s now, and what is known of it may be old: connection refused\n"},
	} {
		h := health(func() error { return nil }, within(30*time.Second, c.on, func() time.Time { return now }))
		code := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}
		for path, ready := range map[string]bool{"/livez": true, "/readyz": c.want == "", "/startupz": c.want == ""} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			require.Equal(t, code[ready], w.Code, "%s: %s", name, path)
			if !ready {
				require.Equal(t, c.want, w.Body.String())
			}
		}
	}
}
