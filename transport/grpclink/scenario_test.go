package grpclink

import (
	"bytes"
	"crypto/tls"
	"errors"
	"flag"
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
	"golang.org/x/sync/errgroup"

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

// comers is 2,000 for the whole of the scenario.
var comers = flag.Int("comers", 100, "how many agents come and go in TestScenario08_AgentsComeAndGo")

// TestScenario08_AgentsComeAndGo: agents connect, say something, are told something, leave and
// are removed. Nothing of them is left.
func TestScenario08_AgentsComeAndGo(t *testing.T) {
	const atOnce = 4
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	address := addr(t, h)
	come := func(first, n int) {
		var all errgroup.Group
		all.SetLimit(atOnce)
		for i := range n {
			all.Go(func() error { return visit(t, h, p, fmt.Sprint("agent-", first+i), address) })
		}
		require.NoError(t, all.Wait())
	}
	come(0, 2*atOnce)
	settles(t, func() bool { return guests(h) == 0 })
	goroutines, held := runtime.NumGoroutine(), heap()
	come(2*atOnce, *comers)
	settles(t, func() bool { return guests(h) == 0 && runtime.NumGoroutine() <= goroutines })
	require.Less(t, heap(), held+held/20+1<<20)
	kept, err := h.Kept(t.Context())
	require.NoError(t, err)
	require.Empty(t, kept)
	require.Empty(t, h.Troubles())
}

// guests returns how many agents have a connection.
func guests(h *Hub) int {
	h.desk.lobby.mu.Lock()
	defer h.desk.lobby.mu.Unlock()
	return len(h.desk.lobby.all)
}

// settles waits until what ends by itself has ended.
func settles(t *testing.T, ok func() bool) {
	t.Helper()
	late, look := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-late:
			require.FailNow(t, "it does not settle", "%d goroutines", runtime.NumGoroutine())
		}
	}
}

// visit has an agent come and go.
func visit(t *testing.T, h *Hub, p tlstest.Authority, name, address string) error {
	hub, err := h.Link(t.Context(), name)
	if err != nil {
		return err
	}
	d, err := NewDialer(dialerConfig(t, p, name, address))
	if err != nil {
		return err
	}
	agent, err := d.Dial(t.Context())
	if err != nil {
		return err
	}
	for from, to := range map[transport.Link]transport.Link{hub: agent, agent: hub} {
		if err := from.Send(t.Context(), value("key", name)); err != nil {
			return err
		}
		await(t, to, isValue("key", name))
	}
	return errors.Join(agent.Close(), hub.Close(), h.Forget(t.Context(), name))
}

// heap returns how much memory is used, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
