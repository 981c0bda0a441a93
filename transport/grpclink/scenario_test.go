package grpclink

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink/linkpb"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// A hostile connection has a good certificate, and says whatever it likes in HTTP/2.
type hostile struct {
	net.Conn
	*http2.Framer
	t *testing.T
}

func newHostile(t *testing.T, p tlstest.Authority, address string) hostile {
	c := p.Client(t, "north").Client("127.0.0.1")
	c.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", address, c)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return hostile{conn, http2.NewFramer(conn, conn), t}
}

// greets says what every connection begins with.
func (h hostile) greets() {
	_, err := io.WriteString(h, http2.ClientPreface)
	require.NoError(h.t, err)
	require.NoError(h.t, h.WriteSettings())
}

// calls begins a call on a stream; an error is that the server has hung up.
func (h hostile) calls(stream uint32) error {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "https"}, {":path", linkpb.Link_Table_FullMethodName},
		{":authority", "hub"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		require.NoError(h.t, e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	return h.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(), EndHeaders: true})
}

// listens reads until the server hangs up, and reports whether it does.
func (h hostile) listens() bool {
	_, err := io.Copy(io.Discard, h)
	e, ok := err.(net.Error)
	return !ok || !e.Timeout()
}

// TestScenario25_HostileBytes: whoever has a good certificate and sends garbage, half a frame,
// frames and messages of sizes that nobody takes, or ten thousand calls, is hung up on, costs
// little memory, and other agents notice nothing.
func TestScenario25_HostileBytes(t *testing.T) {
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	address := addr(t, h)
	var links []transport.Link
	for _, name := range []string{"north", "south"} {
		l, err := h.Link(t.Context(), name)
		require.NoError(t, err)
		links = append(links, l)
	}
	south := dial(t, dialerConfig(t, p, "south", address))
	await(t, south, is(transport.Up))
	before := heap()
	for name, act := range map[string]func(hostile){
		"garbage":      func(h hostile) { _, _ = io.WriteString(h, strings.Repeat("x", 1<<20)) },
		"nothing":      func(hostile) {},
		"half a frame": func(h hostile) { h.greets(); _, _ = h.Write([]byte{0, 0, 8, 6}) },
		"a huge frame": func(h hostile) { h.greets(); _, _ = h.Write([]byte{255, 255, 255, 0, 0, 0, 0, 0, 1}) },
		"a message of 2 GiB": func(h hostile) {
			h.greets()
			require.NoError(t, h.calls(1))
			_ = h.WriteData(1, false, []byte{0, 128, 0, 0, 0})
		},
		"ten thousand calls": func(h hostile) {
			h.greets()
			for i := range uint32(10_000) {
				if h.calls(2*i+1) != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newHostile(t, p, address)
			defer func() { _ = c.Close() }()
			hungUp := make(chan bool, 1)
			go func() { hungUp <- c.listens() }()
			act(c)
			require.True(t, <-hungUp)
			require.NoError(t, links[1].Send(t.Context(), value("key", name)))
			await(t, south, func(d transport.Delivery) bool {
				require.NotEqual(t, transport.Down, d.Event)
				return isValue("key", name)(d)
			})
		})
	}
	require.Less(t, heap(), before+64<<20)
}

// TestScenario04_ReconnectsWhoseOldConnectionEndsLate: of 100 reconnects the hub learns up to
// half a second late that the connection before has ended. The newer one is served, is
// the only one, and is not taken for gone when the older one ends.
func TestScenario04_ReconnectsWhoseOldConnectionEndsLate(t *testing.T) {
	t.Parallel() // it waits for the agent's pauses between attempts
	const reconnects, latest = 100, 500 * time.Millisecond
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	line, err := netfault.Listen(func() string { return addr(t, h) })
	require.NoError(t, err)
	defer func() { require.NoError(t, line.Close()) }()
	agent := dial(t, dialerConfig(t, p, "north", line.Addr()))
	await(t, hub, is(transport.Up))
	await(t, agent, is(transport.Up))

	// exchange has a value cross either way, and returns how many Downs came before.
	exchange := func(text string) (downs int) {
		require.NoError(t, hub.Send(t.Context(), value("key", text)))
		require.NoError(t, agent.Send(t.Context(), value("key", text)))
		for _, l := range []transport.Link{hub, agent} {
			await(t, l, func(d transport.Delivery) bool {
				if d.Event == transport.Down {
					downs++
				}
				return isValue("key", text)(d)
			})
		}
		return downs
	}
	session := func() *session {
		h.desk.mu.Lock()
		defer h.desk.mu.Unlock()
		return h.desk.seats["north"].session
	}
	chance := rand.New(rand.NewPCG(4, 4))
	for i := range reconnects {
		before := session()
		told := line.Drop(time.Duration(chance.Int64N(int64(latest))))
		exchange(fmt.Sprint("over the next connection ", i))
		now := session()
		require.NotSame(t, before, now)
		<-told
		<-before.ctx.Done()
		require.Zero(t, exchange(fmt.Sprint("after the last has ended ", i)), "reconnect %d: down while a newer session lives", i)
		require.Same(t, now, session(), "the newer session was closed")
		require.NoError(t, now.ctx.Err())
	}
}

// heap returns how much memory is used, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
