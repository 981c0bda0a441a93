package redis

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

func newSpokes(room int, open func(context.Context, string, string) (net.Conn, error)) *spokes {
	return &spokes{
		open: open, timeout: time.Second, limit: 1 << 20, kept: newKept(room), log: zap.NewNop(),
		gates: map[string]*gate{}, failing: map[string]failing{}, counts: map[Outcome]uint64{},
	}
}

// An agent that takes what it is asked, and never answers, holds up who asks for a second, and
// is asked no more than so many questions at a time.
func TestAgentsHaveASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened atomic.Int32
		s := newSpokes(1<<20, func(context.Context, string, string) (net.Conn, error) {
			opened.Add(1)
			near, far := net.Pipe()
			go io.Copy(io.Discard, far)
			return near, nil
		})
		began := time.Now()
		answers := make(chan []byte)
		for range maxAsked + 8 {
			go func() { answers <- s.read(t.Context(), 3, "GET", "edge-1", "k") }()
		}
		synctest.Wait()
		require.EqualValues(t, maxAsked, opened.Load())
		for range maxAsked + 8 {
			require.Equal(t, "_\r\n", string(<-answers))
		}
		require.Equal(t, time.Second, time.Since(began))
		require.Empty(t, s.gates)
	})
}

// An agent that begins many large answers, and ends none, takes no more of the principal's memory
// than two of the largest; what it takes is given back.
func TestAgentsHaveARoomForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *spokes
		var most atomic.Int64
		s = newSpokes(1<<20, func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				_, _ = newReader(far, 1<<10).command()
				_, _ = fmt.Fprintf(far, "$%d\r\n", 900<<10)
				for range 800 {
					if _, err := far.Write(make([]byte, 1<<10)); err != nil {
						return
					}
					s.mu.Lock()
					most.Store(max(most.Load(), s.gates["edge-1"].taken.Load()))
					s.mu.Unlock()
				}
			}()
			return near, nil
		})
		answers := make(chan []byte)
		for range 16 {
			go func() { answers <- s.read(t.Context(), 3, "GET", "edge-1", "k") }()
		}
		for range 16 {
			require.Equal(t, "_\r\n", string(<-answers))
		}
		require.Less(t, most.Load(), int64(maxAnswers<<20+16*(4<<10)), "what each has read last besides")
		require.Greater(t, most.Load(), int64(1<<20))
		require.Empty(t, s.gates)
	})
}

// The age of what is shown of an agent that is away is that since it told it.
func TestWhatIsKeptHasAnAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := false
		s := newSpokes(1<<20, func(context.Context, string, string) (net.Conn, error) {
			if away {
				return nil, transport.ErrAway
			}
			near, far := net.Pipe()
			go func() {
				_, _ = newReader(far, 1<<10).command()
				_, _ = far.Write([]byte("$3\r\none\r\n"))
				_ = far.Close()
			}()
			return near, nil
		})
		p := &Proxy{spokes: s}
		require.Equal(t, "$3\r\none\r\n", string(s.read(t.Context(), 2, "GET", "edge-1", "k")))
		away = true
		time.Sleep(time.Minute)
		require.Equal(t, "$3\r\none\r\n", string(s.read(t.Context(), 2, "GET", "edge-1", "k")))
		require.Equal(t, "$-1\r\n", string(s.read(t.Context(), 2, "GET", "edge-2", "k")))
		require.Equal(t, map[string]time.Duration{"edge-1": time.Minute, "edge-2": 0}, p.Stats().Away)
		time.Sleep(forgotten + 1)
		require.Empty(t, p.Stats().Away)
	})
}

// There is room for so much, and what was asked for least recently goes first.
func TestKeptIsBounded(t *testing.T) {
	k := newKept(16 << 10)
	at := func(i int) place { return place{"edge-1", fmt.Sprint("k", i)} }
	value := []byte(strings.Repeat("v", 1000))
	for i := range 100 {
		k.put(at(i), value, time.Now())
		_, _, ok := k.get(at(0))
		require.True(t, ok)
	}
	require.LessOrEqual(t, k.taken, 16<<10)
	require.Equal(t, len(k.at), k.order.Len())
	_, _, ok := k.get(at(1))
	require.False(t, ok)
	_, _, ok = k.get(at(99))
	require.True(t, ok)
	k.put(at(0), make([]byte, 4<<10), time.Now())
	_, _, ok = k.get(at(0))
	require.False(t, ok, "an older value would be shown in its place")
	for i := range 100 {
		k.remove(at(i))
	}
	require.Zero(t, k.taken)
}
