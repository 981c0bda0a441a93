package tunnel_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

const path = "/agents"

// A site is a Door, and whoever it lets in is said back what he says.
type site struct {
	own     *identity.Credentials
	agent   *identity.Credentials
	address string
	entered chan net.Addr
}

func newSite(t *testing.T, others bool) *site {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return newSiteAt(t, l, others)
}

func newSiteAt(t *testing.T, l net.Listener, others bool) *site {
	ca := tlstest.NewAuthority(t)
	s := &site{own: ca.Server(t), agent: ca.Client(t, "north"), address: l.Addr().String(), entered: make(chan net.Addr, 100)}
	door := tunnel.Open(l, tunnel.DoorConfig{Path: path, TLS: s.own.EnvelopeServer(), Others: others})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := door.Accept()
			if err != nil {
				return
			}
			s.entered <- c.RemoteAddr()
			all.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		require.NoError(t, door.Close())
		_, err := door.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		all.Wait()
	})
	return s
}

// route returns the way into the site by a scheme.
func (s *site) route(scheme string) tunnel.Route {
	return tunnel.Route{Websocket: &url.URL{Scheme: scheme, Host: s.address, Path: path}, TLS: s.agent.EnvelopeClient}
}

// hears says something, and returns once it is said back.
func hears(t *testing.T, c net.Conn, text string) {
	t.Helper()
	var said sync.WaitGroup
	defer said.Wait()
	said.Go(func() { _, _ = io.WriteString(c, text) }) // what is wrong is read
	back := make([]byte, len(text))
	_, err := io.ReadFull(c, back)
	require.NoError(t, err)
	require.Equal(t, text, string(back))
}

func TestDoor(t *testing.T) {
	for _, others := range []bool{false, true} {
		s := newSite(t, others)
		for _, scheme := range []string{"ws", "wss"} {
			c, err := s.route(scheme).Dial(t.Context(), "where:1")
			require.NoError(t, err)
			require.Contains(t, (<-s.entered).String(), "127.0.0.1:")
			hears(t, c, "hello")
			hears(t, c, strings.Repeat("x", 1<<20))
			require.NoError(t, c.Close())
		}
	}
}

// One port serves those who offer what is not HTTP/1.1 too, as they are: whatever has been
// read of them is read again.
func TestDoorForOthers(t *testing.T) {
	s := newSite(t, true)
	c, err := net.Dial("tcp", s.address)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	said := make(chan error, 1)
	go func() {
		said <- tls.Client(c, &tls.Config{NextProtos: []string{"h2"}, InsecureSkipVerify: true}).Handshake()
	}()
	<-s.entered
	require.ErrorContains(t, <-said, "clientHelloMsg when waiting for *tls.serverHelloMsg") // its own words came back
}

// Who wants anything else is told so in one line, at once, or is hung up on when he takes too
// long; none is let in.
func TestDoorRefuses(t *testing.T) {
	s := newSite(t, true)
	upgrade := "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	for name, c := range map[string]struct{ says, answer, line string }{
		"a plain request": {"GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n", "426 Upgrade Required", "argocd-agent: agents connect by websocket"},
		"another path":    {"GET /nowhere HTTP/1.1\r\nHost: h\r\n" + upgrade + "\r\n", "404 Not Found", "argocd-agent: agents connect to the path " + path},
		"no key":          {"GET " + path + " HTTP/1.1\r\nHost: h\r\n" + strings.Replace(upgrade, "Key", "Kay", 1) + "\r\n", "400 Bad Request", "missing Sec-WebSocket-Key"},
		"a browser":       {"GET " + path + " HTTP/1.1\r\nHost: h\r\nOrigin: http://other\r\n" + upgrade + "\r\n", "403 Forbidden", "not authorized"},
		"long headers":    {"GET " + path + " HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "431 Request Header Fields Too Large", ""},
		"no HTTP":         {"hello\r\n\r\n", "400 Bad Request", ""},
		"bare HTTP/2":     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "404 Not Found", "argocd-agent: agents connect to the path " + path},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", s.address)
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			go func() { _, _ = io.WriteString(conn, c.says) }() // it may not be read to the end
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, c.answer, answer.Status)
			said, err := io.ReadAll(io.LimitReader(answer.Body, 1000))
			if c.line != "" {
				require.NoError(t, err)
				require.Contains(t, string(said), c.line)
				require.Equal(t, 1, strings.Count(string(said), "\n"))
			}
			_ = answer.Body.Close()
		})
	}
	require.Empty(t, s.entered)
}

// What says nothing, or never ends, is hung up on.
func TestDoorIsNotHeldOpen(t *testing.T) {
	for name, says := range map[string]string{
		"nothing": "", "half a handshake": "\x16\x03\x01\x02\x00\x01", "half a request": "GET " + path + " HTTP/1.1\r\nHost",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &pipes{servers: make(chan net.Conn, 1), closed: make(chan struct{})}
				s := newSiteAt(t, l, true)
				conn, server := net.Pipe()
				defer func() { _ = conn.Close() }()
				l.servers <- server
				if says != "" {
					_, err := io.WriteString(conn, says)
					require.NoError(t, err)
				}
				began := time.Now()
				_, _ = io.Copy(io.Discard, conn)
				require.Less(t, time.Since(began), 25*time.Second)
				require.Empty(t, s.entered)
			})
		})
	}
}

// pipes is a listener of what is not of the network, so that no time passes but in the bubble.
type pipes struct {
	servers chan net.Conn
	closed  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.servers:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.closed); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Frames of any length that their heads may say cost no more than others, and what is no frame
// ends the connection.
func TestDoorTakesNoHugeFrame(t *testing.T) {
	s := newSite(t, false)
	open := func() net.Conn {
		conn, err := net.Dial("tcp", s.address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", path)
		require.NoError(t, err)
		from := bufio.NewReader(conn)
		answer, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
		require.Zero(t, from.Buffered())
		<-s.entered
		return conn
	}
	frame := func(kind byte, length uint64, text string) []byte { // masked by nought
		return append(append(binary.BigEndian.AppendUint64([]byte{0x80 | kind, 0x80 | 127}, length), 0, 0, 0, 0), text...)
	}
	before := heap()
	huge := open()
	said := make(chan error, 1)
	go func() {
		_, err := huge.Write(frame(2, 1<<62, strings.Repeat("x", 1<<20)))
		said <- err
	}()
	_, err := io.CopyN(io.Discard, huge, 1<<19) // it is said back
	require.NoError(t, err)
	require.Less(t, heap(), before+16<<20)
	require.NoError(t, huge.Close())
	<-said
	for name, says := range map[string][]byte{
		"a long ping":      frame(9, 1<<20, strings.Repeat("x", 1<<10)),
		"an unknown kind":  frame(5, 5, "hello"),
		"a negative frame": frame(2, 1<<63, ""),
		"no mask":          {0x82, 5, 'h', 'e', 'l', 'l', 'o'},
	} {
		t.Run(name, func(t *testing.T) {
			conn := open()
			_, err := conn.Write(says)
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
			_, err = io.Copy(io.Discard, conn)
			late, ok := err.(net.Error)
			require.False(t, ok && late.Timeout(), "it stays open")
		})
	}
}

// heap returns how much memory is used, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A Door that closes ends those at whom it is still looking.
func TestDoorCloses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	line, err := netfault.Listen(func() string { return l.Addr().String() })
	require.NoError(t, err)
	defer func() { require.NoError(t, line.Close()) }()
	door := tunnel.Open(l, tunnel.DoorConfig{Path: path})
	conn, err := net.Dial("tcp", line.Addr())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, door.Close())
	require.NoError(t, door.Close())
	_, err = io.Copy(io.Discard, conn)
	require.NoError(t, err)
}
