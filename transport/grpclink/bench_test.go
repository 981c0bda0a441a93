package grpclink

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// benchmarkLinks returns the Links of a hub and of an agent, and what counts the bytes
// between them.
func benchmarkLinks(b testing.TB) (hub, agent transport.Link, m *meter) {
	p := tlstest.NewAuthority(b)
	config := hubConfig(b, p)
	config.Heartbeat, config.Logger = DefaultHeartbeat, zap.NewNop()
	address, hub := joined(b, p, config)
	m = newMeter(b, address)
	c := dialerConfig(b, p, "north", m.listener.Addr().String())
	c.Heartbeat = DefaultHeartbeat
	agent = dial(b, c)
	await(b, hub, is(transport.Up))
	await(b, agent, is(transport.Up))
	return hub, agent, m
}

// A meter is a line that counts.
type meter struct {
	listener net.Listener
	bytes    atomic.Int64 // both ways
}

func newMeter(b testing.TB, to string) *meter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	m := &meter{listener: l}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				from.Close()
				continue
			}
			pumps.Go(func() { m.pump(from, far) })
			pumps.Go(func() { m.pump(far, from) })
		}
	})
	b.Cleanup(func() {
		l.Close()
		pumps.Wait()
	})
	return m
}

func (m *meter) pump(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	_, _ = io.Copy(counted{to, m}, from)
}

// A counted counts what is written.
type counted struct {
	io.Writer
	m *meter
}

func (c counted) Write(b []byte) (int, error) {
	c.m.bytes.Add(int64(len(b)))
	return c.Writer.Write(b)
}

// BenchmarkLatency measures the time from Send to Receive of one message of 2 KiB.
func BenchmarkLatency(b *testing.B) {
	hub, agent, _ := benchmarkLinks(b)
	text := strings.Repeat("x", 2<<10)
	for name, ends := range map[string][2]transport.Link{"Up": {agent, hub}, "Down": {hub, agent}} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				said := fmt.Sprint(text, i)
				require.NoError(b, ends[0].Send(b.Context(), value("key", said)))
				await(b, ends[1], isValue("key", said))
			}
		})
	}
}

// BenchmarkThroughput measures messages of 1 KiB that one agent sends, of 100,000 keys, until
// the last is received.
func BenchmarkThroughput(b *testing.B) {
	hub, agent, _ := benchmarkLinks(b)
	text := strings.Repeat("x", 1<<10)
	b.ResetTimer()
	var g errgroup.Group
	g.Go(func() error {
		for i := range b.N {
			if err := agent.Send(b.Context(), value(fmt.Sprint("key-", i%100000), text)); err != nil {
				return err
			}
		}
		return agent.Send(b.Context(), value("last", text))
	})
	await(b, hub, isValue("last", text))
	require.NoError(b, g.Wait())
}

// BenchmarkStatusBytes measures what crosses the line, both ways, for a change of the health in
// the status of an Application of 20 resources.
func BenchmarkStatusBytes(b *testing.B) {
	hub, agent, m := benchmarkLinks(b)
	var resources strings.Builder
	for i := range 20 {
		fmt.Fprintf(&resources, `{"group":"apps","version":"v1","kind":"Deployment","namespace":"shop","name":"service-%d","status":"Synced","health":{"status":"Healthy"}},`, i)
	}
	said := func(i int) string {
		return fmt.Sprintf(`{"resources":[%s{}],"health":{"status":%q},"reconciledAt":"2026-11-28T%02d:%02d:%02dZ"}`,
			resources.String(), [...]string{"Healthy", "Progressing"}[i%2], i/3600%24, i/60%60, i%60)
	}
	i := 0
	change := func() {
		i++
		require.NoError(b, agent.Send(b.Context(), value("Application/argocd/shop", said(i))))
		await(b, hub, isValue("Application/argocd/shop", said(i)))
	}
	change()
	before := m.bytes.Load()
	for b.Loop() {
		change()
	}
	b.ReportMetric(float64(m.bytes.Load()-before)/float64(b.N), "B/change")
}

// BenchmarkIdle measures what crosses the line in a minute when nothing is said.
func BenchmarkIdle(b *testing.B) {
	_, _, m := benchmarkLinks(b)
	before, began := m.bytes.Load(), time.Now()
	for b.Loop() {
		<-time.After(2 * DefaultHeartbeat)
	}
	b.ReportMetric(float64(m.bytes.Load()-before)/time.Since(began).Minutes(), "B/min")
}

// BenchmarkFleet measures a fleet of agents with 50 rows each: what both ends of each take in
// memory, and how long it takes from the start of another principal, which says the same anew,
// until all are back.
func BenchmarkFleet(b *testing.B) {
	const fleet, rows = 500, 50
	p := tlstest.NewAuthority(b)
	c := hubConfig(b, p)
	c.Logger, c.Heartbeat = zap.NewNop(), DefaultHeartbeat
	l, err := net.Listen("tcp", "127.0.0.1:0") // where the hub will be, each time
	require.NoError(b, err)
	c.Listen = l.Addr().String()
	require.NoError(b, l.Close())

	var agents []transport.Link
	before := memory()
	begin := func() (stop func()) {
		h, stop := startHub(b, c)
		for i := range fleet {
			l, err := h.Link(b.Context(), fmt.Sprint("agent-", i))
			require.NoError(b, err)
			for k := range rows {
				require.NoError(b, l.Send(b.Context(), value(fmt.Sprint("key-", k), "a text")))
			}
		}
		return stop
	}
	stop := begin()
	for i := range fleet {
		name := fmt.Sprint("agent-", i)
		d := dialerConfig(b, p, name, c.Listen)
		d.Logger, d.Heartbeat = zap.NewNop(), DefaultHeartbeat
		agents = append(agents, dial(b, d))
	}
	for _, l := range agents {
		await(b, l, is(transport.Up))
	}
	taken := float64(memory()-before) / fleet / 1024
	var returned time.Duration
	for b.Loop() {
		stop()
		for _, l := range agents {
			await(b, l, is(transport.Down))
		}
		began := time.Now()
		stop = begin()
		for _, l := range agents {
			await(b, l, is(transport.Up))
		}
		returned += time.Since(began)
	}
	b.ReportMetric(taken, "KiB/agent-both-ends")
	b.ReportMetric(returned.Seconds()/float64(b.N), "s-to-return")
}

// memory returns what the process has taken from the system for its heap and stacks, in use.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
