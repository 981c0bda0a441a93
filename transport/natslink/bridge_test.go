package natslink

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// A bridge leads to the one place, and only who knows its password; why there is no way is in
// the status, which is all that the server tells.
func TestBridge(t *testing.T) {
	near, far := net.Pipe()
	ways := make(chan error, 1)
	b, err := openBridge(func(context.Context) (net.Conn, error) { return near, <-ways })
	require.NoError(t, err)
	defer b.close()
	remote := &server.RemoteLeafOpts{}
	b.lead(remote)
	ask := func(password string) (net.Conn, *http.Response, error) {
		conn, err := net.Dial("tcp", remote.URLs[0].Host)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		r := &http.Request{Method: http.MethodConnect, Host: "where:1", URL: remote.URLs[0], Header: http.Header{}}
		r.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(remote.Proxy.Username+":"+password)))
		require.NoError(t, r.Write(conn))
		answer, err := http.ReadResponse(bufio.NewReader(conn), r)
		return conn, answer, err
	}
	_, _, err = ask("a guess")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	ways <- errors.New("no way,\nand so on")
	_, answer, err := ask(remote.Proxy.Password)
	require.NoError(t, err)
	require.Equal(t, "502 no way, and so on", answer.Status)

	ways <- nil
	conn, answer, err := ask(remote.Proxy.Password)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	go func() { _, _ = io.WriteString(far, "hello") }()
	said := make([]byte, 5)
	_, err = io.ReadFull(conn, said)
	require.NoError(t, err)
	require.Equal(t, "hello", string(said))
	b.close()
	_, err = conn.Read(said)
	require.Error(t, err, "what crosses it ends with it")
}

// Where a connection by websocket comes from is where the websocket does.
func TestEntranceKnowsOrigins(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	e := newEntrance(zap.NewNop())
	near, far := net.Pipe()
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		e.pass(t.Context(), near, l.Addr().String())
	}()
	go func() { _, _ = io.WriteString(far, "hello") }()
	served, err := l.Accept()
	require.NoError(t, err)
	_, err = io.ReadFull(served, make([]byte, 5)) // it is noted before anything is passed on
	require.NoError(t, err)
	require.Equal(t, near.RemoteAddr(), e.origin(served.RemoteAddr()))
	require.NoError(t, served.Close())
	<-passed
	require.Equal(t, served.RemoteAddr(), e.origin(served.RemoteAddr()), "it is forgotten with the connection")
	require.Nil(t, e.origin(nil))
}

func TestWithin(t *testing.T) {
	for host, want := range map[string]string{
		"": "localhost:1", "0.0.0.0": "127.0.0.1:1", "::": "localhost:1", "10.0.0.1": "10.0.0.1:1", "hub": "hub:1",
	} {
		require.Equal(t, want, within(host, "1"))
	}
}
