package command

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthTellsTheTruth(t *testing.T) {
	var reason error
	h := health{ready: func() error { return reason }}.handler()
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

func TestHealthEndsWithItsContext(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := taken.Addr().String()
	ready := func() error { return nil }
	require.ErrorContains(t, health{address, ready}.Run(t.Context()), "choose another --healthz-port")
	require.NoError(t, taken.Close())

	for _, address := range []string{address, ""} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- health{address, ready}.Run(ctx) }()
		if address != "" {
			require.Equal(t, "ok\n", body(t, "http://"+address+"/livez"))
		}
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

// body asks until there is somebody to answer.
func body(t *testing.T, url string) string {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		answer, err := client.Get(url)
		if err != nil && t.Context().Err() == nil {
			continue
		}
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return string(text)
	}
}
