package command

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/metrics"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// TestProfilesAreLocal holds that nobody reaches a profile from outside, and that it is off
// unless it is asked for.
func TestProfilesAreLocal(t *testing.T) {
	address := func(args ...string) (text string, err error) {
		app := &cli.App{Writer: io.Discard, ErrWriter: io.Discard, ExitErrHandler: func(*cli.Context, error) {}, Flags: pprofFlags("ARGOCD_TEST_"), Action: func(c *cli.Context) error {
			text, err = pprofAddress(c)
			return err
		}}
		_ = app.Run(append([]string{"tool"}, args...))
		return text, err
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"--pprof-port", "6060"}, "127.0.0.1:6060"},
		{[]string{"--pprof-listen", "localhost:6060"}, "localhost:6060"},
		{[]string{"--pprof-listen", "[::1]:6060"}, "[::1]:6060"},
		{[]string{"--pprof-listen", "127.0.0.2:6060"}, "127.0.0.2:6060"},
	} {
		got, err := address(c.args...)
		require.NoError(t, err, c.args)
		require.Equal(t, c.want, got)
	}
	for _, bad := range [][]string{
		{"--pprof-listen", ":6060"}, {"--pprof-listen", "0.0.0.0:6060"}, {"--pprof-listen", "[::]:6060"}, {"--pprof-listen", "10.0.0.1:6060"},
		{"--pprof-listen", "hub.example.com:6060"}, {"--pprof-listen", "6060"}, {"--pprof-listen", "127.0.0.1:1", "--pprof-port", "2"},
	} {
		_, err := address(bad...)
		var usage *shell.UsageError
		require.ErrorAs(t, err, &usage, bad)
	}
}

func TestProfilesAreServedWhereAsked(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- profiles(address)(ctx) }()
	require.Contains(t, body(t, "http://"+address+"/debug/pprof/goroutine?debug=1"), "goroutine profile")
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)

	told := metrics.Handler(metrics.Source{Links: func() []metrics.Link { return nil }, Expiry: func() time.Time { return time.Time{} }})
	for name, h := range map[string]http.Handler{"metrics": told, "health": health(func() error { return nil })} {
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/vars"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			require.Equal(t, http.StatusNotFound, w.Code, "%s %s", name, path)
		}
	}
}
