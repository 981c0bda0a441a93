package natslink

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// TestScenario04_ReconnectsWhoseOldConnectionEndsLate: of 100 reconnects the hub learns up to
// half a second late that the connection before has ended. The newer one is served, is
// the only one, and is not taken for gone when the older one ends.
func TestScenario04_ReconnectsWhoseOldConnectionEndsLate(t *testing.T) {
	const reconnects, latest = 100, 500 * time.Millisecond
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	line, err := netfault.Listen(func() string { return addr(t, h) })
	require.NoError(t, err)
	defer func() { require.NoError(t, line.Close()) }()
	leaf, err := NewLeaf(leafConfig(t, p, "north", line.Addr()))
	require.NoError(t, err)
	agent, err := leaf.Dial(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, agent.Close()) }()
	awaitEvent(t, hub, transport.Up)
	awaitEvent(t, agent, transport.Up)

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
	live := func() int {
		z, err := h.node.current().Leafz(&server.LeafzOptions{})
		require.NoError(t, err)
		return len(z.Leafs)
	}
	chance := rand.New(rand.NewPCG(4, 4))
	for i := range reconnects {
		before := h.guard.session("north")
		told := line.Drop(time.Duration(chance.Int64N(int64(latest))))
		exchange(fmt.Sprint("over the next connection ", i))
		now := h.guard.session("north")
		require.NotEqual(t, before, now)
		<-told
		require.Zero(t, exchange(fmt.Sprint("after the last has ended ", i)), "reconnect %d: down while a newer session lives", i)
		require.Equal(t, now, h.guard.session("north"), "the newer session was closed")
		for _, state := range []func() (State, error){
			func() (State, error) { return h.State(t.Context(), "north") },
			func() (State, error) { return leaf.State(t.Context()) },
		} {
			s, err := state()
			require.NoError(t, err)
			require.True(t, s.Connected)
			require.NotZero(t, s.UpSince)
		}
		require.Equal(t, 1, live(), "sessions that do not live are counted")
	}
}

// TestScenario23_StreamsDeletedByAnOperator: each stream of either side is deleted at its
// server, while messages are sent and while none are. It is noticed and made anew, and both
// sides are equal after.
func TestScenario23_StreamsDeletedByAnOperator(t *testing.T) {
	const keys = 50
	for _, lost := range []linktest.Store{linktest.HubLog, linktest.HubCopy, linktest.AgentLog, linktest.AgentCopy} {
		for _, busy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/busy=%v", lost, busy), func(t *testing.T) {
				_, _, hub, agent := joined(t)
				rounds := 0
				send := func(l transport.Link) string {
					rounds++
					text := fmt.Sprint("round ", rounds)
					for k := range keys {
						require.NoError(t, l.Send(t.Context(), value(fmt.Sprintf("key-%d", k), text)))
					}
					return text
				}
				down, up := send(hub), send(agent)
				whole := func(l transport.Link, text string) {
					missing := map[string]bool{}
					for k := range keys {
						missing[fmt.Sprintf("key-%d", k)] = true
					}
					await(t, l, func(d transport.Delivery) bool {
						if d.Event == transport.Value && string(d.Message.Event.Data()) == text {
							delete(missing, d.Message.Key)
						}
						return len(missing) == 0
					})
				}
				whole(agent, down)
				whole(hub, up)

				n := names{"north"}
				of := map[linktest.Store]transport.Link{linktest.HubLog: hub, linktest.HubCopy: hub, linktest.AgentLog: agent, linktest.AgentCopy: agent}[lost]
				stream := map[linktest.Store]string{
					linktest.HubLog: n.downLog(), linktest.HubCopy: n.upCopy(), linktest.AgentLog: n.upLog(), linktest.AgentCopy: n.downCopy(),
				}[lost]
				js := logOf(of).js
				require.NoError(t, js.DeleteStream(t.Context(), stream))
				if busy {
					down, up = send(hub), send(agent)
				}
				if lost == linktest.HubLog || lost == linktest.AgentLog {
					awaitEvent(t, of, transport.LogLost)
					text := send(of) // as its session does
					if of == hub {
						down = text
					} else {
						up = text
					}
				}
				if busy || lost == linktest.HubLog || lost == linktest.AgentCopy {
					whole(agent, down)
				}
				if busy || lost == linktest.AgentLog || lost == linktest.HubCopy {
					whole(hub, up)
				}
				_, err := js.Stream(t.Context(), stream)
				require.NoError(t, err)
				require.Equal(t, digests(t, hub.(*link).log), digests(t, agent.(*link).copy))
				require.Equal(t, digests(t, agent.(*link).log), digests(t, hub.(*link).copy))
			})
		}
	}
}

// digests returns what a stream holds.
func digests(t *testing.T, s shelf) map[string]string {
	all := map[string]string{}
	require.NoError(t, each(t.Context(), s, 1, func(r row) error {
		all[r.tail] = r.header.Get(digestHeader)
		return nil
	}))
	require.NotEmpty(t, all)
	return all
}

// TestScenario25_HostileBytes: whoever has a good certificate and sends garbage, half a line,
// lines and messages of sizes that nobody takes, or ten thousand subscriptions, is hung up on,
// costs little memory, and other agents notice nothing.
func TestScenario25_HostileBytes(t *testing.T) {
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	address := addr(t, h)
	_, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	hub, err := h.Link(t.Context(), "south")
	require.NoError(t, err)
	south := dial(t, leafConfig(t, p, "south", address))
	awaitEvent(t, south, transport.Up)
	before := heapNow()
	const hello = "CONNECT {\"name\":\"north\",\"headers\":true}\r\n"
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, "LS+ fabric.north.up.%d\r\n", i)
	}
	for name, text := range map[string]string{
		"garbage":                    strings.Repeat("x", 1<<20),
		"nothing":                    "",
		"half a line":                "CONNECT {\"na",
		"a line without end":         hello + "LS+ " + strings.Repeat("x", 8<<20),
		"a message of 2 GiB":         hello + "LMSG fabric.north.up.a 2147483648\r\nx",
		"a message of no size":       hello + "LMSG fabric.north.up.a -1\r\n",
		"ten thousand subscriptions": hello + many.String(),
	} {
		t.Run(name, func(t *testing.T) {
			speak(t, address, p.Client(t, "north").Client("127.0.0.1"), text)
			require.NoError(t, hub.Send(t.Context(), value("key", name)))
			await(t, south, func(d transport.Delivery) bool {
				require.NotEqual(t, transport.Down, d.Event)
				return isValue("key", name)(d)
			})
		})
	}
	require.Less(t, heapNow(), before+64<<20)
}

// heapNow returns how much memory is used, in bytes.
func heapNow() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
