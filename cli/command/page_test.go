package command

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPageEndsWithItsContext(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := taken.Addr().String()
	h := health(func() error { return nil })
	require.ErrorContains(t, page{"healthz-port", address, h}.Run(t.Context()), "choose another --healthz-port")
	require.NoError(t, taken.Close())

	for _, address := range []string{address, ""} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- page{"healthz-port", address, h}.Run(ctx) }()
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
