package share_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/proxy/share"
	"github.com/argocd-fabric/argocd-agent/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A pair is a door and what it leads to.
type pair struct {
	door   string
	server net.Listener
	opened chan net.Conn // the streams, as the agent has them
}

func newPair(t *testing.T, conns int, away bool) pair {
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	t.Cleanup(func() { stop(); serving.Wait() })
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		return l
	}
	p := pair{server: listen(), opened: make(chan net.Conn, 100)}
	forward, err := share.NewForward(share.ForwardConfig{Address: p.server.Addr().String(), Conns: conns, Log: zap.NewNop()})
	require.NoError(t, err)
	streams := listen() // of TCP, which end in halves as those of links do
	serving.Go(func() {
		for {
			c, err := streams.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { forward.Serve(ctx, c) })
		}
	})
	l := listen()
	p.door = l.Addr().String()
	door, err := share.NewDoor(share.DoorConfig{Listener: l, Service: share.RepoServer, Log: zap.NewNop(), Open: func(_ context.Context, service string) (net.Conn, error) {
		if away || service != share.RepoServer {
			return nil, transport.ErrAway
		}
		c, err := net.Dial("tcp", streams.Addr().String())
		if err == nil {
			p.opened <- c
		}
		return c, err
	}})
	require.NoError(t, err)
	serving.Go(func() { _ = door.Run(ctx) })
	t.Cleanup(func() { streams.Close() })
	return p
}

func (p pair) dial(t *testing.T) *net.TCPConn {
	c, err := net.Dial("tcp", p.door)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func (p pair) accept(t *testing.T) *net.TCPConn {
	c, err := p.server.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// What either side says arrives as it is, and so does its end, while the other goes on.
func TestBytesPassThrough(t *testing.T) {
	p := newPair(t, 1, false)
	client := p.dial(t)
	server := p.accept(t)
	text := make([]byte, 5<<20)
	_, _ = rand.Read(text)
	for from, to := range map[*net.TCPConn]*net.TCPConn{client: server, server: client} {
		said := make(chan error, 1)
		go func() {
			_, err := from.Write(text)
			if err == nil {
				err = from.CloseWrite()
			}
			said <- err
		}()
		got, err := io.ReadAll(to)
		require.NoError(t, err)
		require.NoError(t, <-said)
		require.True(t, bytes.Equal(text, got))
	}
}

func TestConnectionsEndTogether(t *testing.T) {
	p := newPair(t, 10, false)
	for name, cut := range map[string]func(client, server, stream net.Conn){
		"client": func(client, _, _ net.Conn) { client.(*net.TCPConn).SetLinger(0); client.Close() },
		"server": func(_, server, _ net.Conn) { server.(*net.TCPConn).SetLinger(0); server.Close() },
		"stream": func(_, _, stream net.Conn) { stream.(*net.TCPConn).SetLinger(0); stream.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			client := p.dial(t)
			server := p.accept(t)
			cut(client, server, <-p.opened)
			for _, c := range []net.Conn{client, server} {
				_, err := c.Read(make([]byte, 1))
				require.Error(t, err)
			}
		})
	}
}

// Of one agent there are so many connections, and one that is closed makes room for another.
func TestConnectionsAreBounded(t *testing.T) {
	p := newPair(t, 1, false)
	first := p.dial(t)
	server := p.accept(t)
	second := p.dial(t)
	_, err := second.Read(make([]byte, 1))
	require.Error(t, err)
	require.NoError(t, first.Close())
	_, err = server.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, server.Close())
}

func TestNobodyWaitsForAPrincipalThatIsAway(t *testing.T) {
	_, err := newPair(t, 1, true).dial(t).Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestConfigsAreChecked(t *testing.T) {
	_, err := share.NewForward(share.ForwardConfig{Log: zap.NewNop(), Conns: 1})
	require.EqualError(t, err, "share: an address and a log are needed")
	_, err = share.NewForward(share.ForwardConfig{Address: "repo:8081", Log: zap.NewNop()})
	require.EqualError(t, err, "share: 0 connections to repo:8081")
	_, err = share.NewDoor(share.DoorConfig{})
	require.EqualError(t, err, "share: listener, service, opener and log are needed")
}
