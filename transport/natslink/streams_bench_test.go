package natslink

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// openStream opens a stream, and returns its two ends.
func openStream(t testing.TB, from, to transport.Link, service string) (one, other net.Conn) {
	one, err := from.Streams().Open(t.Context(), service)
	require.NoError(t, err)
	_, other, err = to.Streams().Accept(t.Context())
	require.NoError(t, err)
	return one, other
}

// BenchmarkStream measures what one stream carries, in writes of 32 KiB.
func BenchmarkStream(b *testing.B) {
	hub, agent := benchmarkLinks(b)
	for name, ends := range map[string][2]transport.Link{"Up": {agent, hub}, "Down": {hub, agent}} {
		b.Run(name, func(b *testing.B) {
			one, other := openStream(b, ends[0], ends[1], "bulk")
			read := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, other)
				read <- err
			}()
			text := make([]byte, 32<<10)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := one.Write(text); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, one.Close())
			require.NoError(b, <-read)
			require.NoError(b, other.Close())
		})
	}
}

// BenchmarkLatencyBesideStream measures the time from Send to Receive of a message of 2 KiB
// while a stream runs flat out in the same direction.
func BenchmarkLatencyBesideStream(b *testing.B) {
	hub, agent := benchmarkLinks(b)
	one, other := openStream(b, agent, hub, "bulk")
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(io.Discard, other)
		ended <- err
	}()
	go func() {
		for text := make([]byte, 32<<10); ; {
			if _, err := one.Write(text); err != nil {
				ended <- nil
				return
			}
		}
	}()
	text := strings.Repeat("x", 2<<10)
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		require.NoError(b, agent.Send(b.Context(), value("key", text)))
		await(b, hub, isValue("key", text))
		took = append(took, time.Since(start))
	}
	require.NoError(b, one.Close())
	require.NoError(b, <-ended)
	require.NoError(b, <-ended)
	require.NoError(b, other.Close())
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
