package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened are streams that the peer opens.
type opened chan asked

type asked struct {
	service string
	c       net.Conn
}

func (o opened) Open(context.Context, string) (net.Conn, error) { return nil, transport.ErrAway }

func (o opened) Accept(ctx context.Context) (string, net.Conn, error) {
	select {
	case a := <-o:
		return a.service, a.c, nil
	case <-ctx.Done():
		return "", nil, context.Cause(ctx)
	}
}

func (o opened) open(service string) net.Conn {
	near, far := net.Pipe()
	o <- asked{service, far}
	return near
}

func run(t *testing.T, f func(context.Context)) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
}

// A service that does not take its stream holds up no other, and one that is not there is
// told so at once.
func TestServicesAreApart(t *testing.T) {
	peer := make(opened)
	services := proxy.Services{
		"slow": func(ctx context.Context, c net.Conn) { <-ctx.Done(); _ = c.Close() },
		"echo": func(_ context.Context, c net.Conn) { _, _ = io.Copy(c, c); _ = c.Close() },
	}
	run(t, func(ctx context.Context) { services.Serve(ctx, peer) })
	slow := peer.open("slow")
	defer slow.Close()
	echo := peer.open("echo")
	_, err := echo.Write([]byte("a"))
	require.NoError(t, err)
	_, err = io.ReadFull(echo, make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, echo.Close())
	none := peer.open("none")
	_, err = none.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// A server of the standard library serves what is put at its Door, and what comes once that
// is closed is closed, too.
func TestDoorIsAListener(t *testing.T) {
	door := proxy.NewDoor()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	ended := make(chan error)
	go func() { ended <- server.Serve(door) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		door.Put(ctx, far)
		return near, nil
	}}}
	answer, err := client.Get("http://agent/")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusTeapot, answer.StatusCode)
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-ended, http.ErrServerClosed)
	near, far := net.Pipe()
	door.Put(t.Context(), far)
	_, err = near.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}
