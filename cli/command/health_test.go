package command

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
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
