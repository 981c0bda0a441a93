package natslink

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// benchmarkLinks returns the Links of a hub and of a leaf over mutual TLS on loopback.
func benchmarkLinks(b *testing.B) (hub, agent transport.Link) {
	p := tlstest.NewAuthority(b)
	h, _ := startHub(b, hubConfig(b, p))
	hub, err := h.Link(b.Context(), "north")
	require.NoError(b, err)
	agent = dial(b, leafConfig(b, p, "north", addr(b, h)))
	for _, l := range []transport.Link{hub, agent} {
		await(b, l, func(d transport.Delivery) bool { return d.Event == transport.Up })
	}
	return hub, agent
}

// BenchmarkLatency measures the time from Send to Receive of one message of 2 KiB.
func BenchmarkLatency(b *testing.B) {
	hub, agent := benchmarkLinks(b)
	text := strings.Repeat("x", 2<<10)
	for name, ends := range map[string][2]transport.Link{"Up": {agent, hub}, "Down": {hub, agent}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, ends[0].Send(b.Context(), value("key", text)))
				await(b, ends[1], isValue("key", text))
			}
		})
	}
}

// BenchmarkThroughput measures messages of 2 KiB that one goroutine sends, of as many keys,
// until the last is received.
func BenchmarkThroughput(b *testing.B) {
	hub, agent := benchmarkLinks(b)
	text := strings.Repeat("x", 2<<10)
	b.ResetTimer()
	sent := make(chan error, 1)
	go func() {
		for i := range b.N {
			if err := agent.Send(b.Context(), value(fmt.Sprintf("key-%d", i%1000), text)); err != nil {
				sent <- err
				return
			}
		}
		sent <- agent.Send(b.Context(), value("last", text))
	}()
	await(b, hub, isValue("last", text))
	require.NoError(b, <-sent)
}

// inUse returns how many bytes of memory are in use.
func inUse() (bytes uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// BenchmarkAgentMemory measures what an agent costs its own process that has been told a hundred
// objects of 2 KiB, and says as many, with a server of its own and without. What the hub has for
// it was there before. Use -benchtime 30x.
func BenchmarkAgentMemory(b *testing.B) {
	text := strings.Repeat("x", 2<<10)
	for name, connect := range map[string]func(testing.TB, tlstest.Authority, *Hub, string) (transport.Dialer, error){
		"Leaf": func(t testing.TB, p tlstest.Authority, h *Hub, agent string) (transport.Dialer, error) {
			return NewLeaf(leafConfig(t, p, agent, addr(t, h)))
		},
		"Client": func(t testing.TB, p tlstest.Authority, h *Hub, agent string) (transport.Dialer, error) {
			return NewClient(clientConfig(t, p, agent, clientAddr(t, h)))
		},
	} {
		b.Run(name, func(b *testing.B) {
			p := tlstest.NewAuthority(b)
			c := hubConfig(b, p)
			c.ClientListen = anyPort
			h, _ := startHub(b, c)
			var hubs []transport.Link
			for i := range b.N {
				hub, err := h.Link(b.Context(), fmt.Sprint("agent-", i))
				require.NoError(b, err)
				for k := range 100 {
					require.NoError(b, hub.Send(b.Context(), value(fmt.Sprint("key-", k), text)))
				}
				hubs = append(hubs, hub)
			}
			before := inUse()
			for i, hub := range hubs {
				d, err := connect(b, p, h, fmt.Sprint("agent-", i))
				require.NoError(b, err)
				agent, err := d.Dial(b.Context())
				require.NoError(b, err)
				defer func() { require.NoError(b, agent.Close()) }()
				for k := range 100 {
					require.NoError(b, agent.Send(b.Context(), value(fmt.Sprint("key-", k), text)))
				}
				await(b, agent, isValue("key-99", text))
				await(b, hub, isValue("key-99", text))
			}
			b.ReportMetric(float64(inUse()-before)/float64(b.N)/1024, "KiB/agent")
		})
	}
}

// BenchmarkHubMemory measures what an agent that is connected costs the hub: its account, its
// leaf connection, the process's own connection to it, its two streams and its Link. This end
// of the agent is a TLS connection and nothing else, which is counted too. Use -benchtime 500x.
func BenchmarkHubMemory(b *testing.B) {
	p := tlstest.NewAuthority(b)
	c := hubConfig(b, p)
	c.Heartbeat, c.Logger = DefaultHeartbeat, zap.NewNop()
	h, _ := startHub(b, c)
	connect := addr(b, h)
	before, goroutines := inUse(), runtime.NumGoroutine()
	for i := range b.N {
		name := fmt.Sprintf("agent-%d", i)
		_, err := h.Link(b.Context(), name)
		require.NoError(b, err)
		conn, err := tls.Dial("tcp", connect, p.Client(b, name).Client("127.0.0.1"))
		require.NoError(b, err)
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintf(conn, "CONNECT {\"name\":%q,\"headers\":true,\"protocol\":1}\r\nLS+ %s\r\nLS+ %s\r\nPING\r\n",
			name, names{name}.askUp(), names{name}.streamsDown())
		require.NoError(b, err)
		for lines := bufio.NewScanner(conn); lines.Scan() && lines.Text() != "PONG"; {
		}
	}
	b.ReportMetric(float64(inUse()-before)/float64(b.N)/1024, "KiB/agent")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(b.N), "goroutines/agent")
}
