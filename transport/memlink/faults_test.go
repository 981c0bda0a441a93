package memlink_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// message returns a value of key, or a tombstone if digest is "".
func message(key, digest string) transport.Message {
	e := event.New()
	e.SetID(key + digest)
	e.SetSource("/memlink")
	e.SetType("test")
	return transport.Message{Key: key, Digest: digest, Event: e}
}

func send(t *testing.T, l transport.Link, all ...transport.Message) {
	t.Helper()
	for _, m := range all {
		require.NoError(t, l.Send(t.Context(), m))
	}
}

func numbered(n int) []transport.Message {
	all := make([]transport.Message, n)
	for i := range all {
		all[i] = message(fmt.Sprintf("key%03d", i), "d")
	}
	return all
}

// open starts both processes and opens both ends of the Link to agent.
func open(t *testing.T, n *memlink.Network, agent string) (h, a transport.Link) {
	t.Helper()
	hub := n.Hub(presence)
	ran := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ran <- hub.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ran
	})
	h, err := hub.Link(t.Context(), agent)
	require.NoError(t, err)
	a, err = n.Agent(agent, presence).Dial(t.Context())
	require.NoError(t, err)
	return h, a
}

// receive receives n deliveries.
func receive(t *testing.T, l transport.Link, n int) []transport.Delivery {
	t.Helper()
	all := make([]transport.Delivery, n)
	for i := range all {
		d, err := l.Receive(t.Context())
		require.NoError(t, err)
		all[i] = d
	}
	return all
}

// values receives until n values have come, and returns their keys.
func values(t *testing.T, l transport.Link, n int) []string {
	t.Helper()
	var keys []string
	for len(keys) < n {
		if d := receive(t, l, 1)[0]; d.Event == transport.Value {
			keys = append(keys, d.Message.Key)
		}
	}
	return keys
}

func TestTrafficCountsWhatCrossed(t *testing.T) {
	n := memlink.New(memlink.Config{Keeps: true, Weather: memlink.Weather{Line: memlink.Cut}})
	h, a := open(t, n, "alpha")
	send(t, h, message("x", "1"), message("x", "2"), message("y", "1"), message("y", ""), message("$m", "1"))
	send(t, a, message("$m", "1"), message("$m", ""))
	down, up := n.Traffic("alpha")
	require.Zero(t, down)
	require.Zero(t, up)

	n.Set("alpha", memlink.Weather{})
	down, up = n.Traffic("alpha")
	require.Equal(t, memlink.Traffic{Values: 1, Tombstones: 1, Reserved: 1}, down)
	require.Equal(t, memlink.Traffic{Reserved: 1}, up)
}

func TestFullLogRefusesNewKeysOnly(t *testing.T) {
	n := memlink.New(memlink.Config{Keeps: true, Rows: 2})
	h, _ := open(t, n, "alpha")
	send(t, h, message("x", "1"), message("y", "1"))
	require.ErrorIs(t, h.Send(t.Context(), message("z", "1")), transport.ErrFull)
	send(t, h, message("x", "2"), message("y", ""))
	require.ErrorIs(t, h.Send(t.Context(), message("z", "1")), transport.ErrFull)
	n.Age("alpha")
	send(t, h, message("z", "1"))
}

func TestAgedTombstonesNeverArrive(t *testing.T) {
	n := memlink.New(memlink.Config{Keeps: true})
	h, a := open(t, n, "alpha")
	send(t, h, message("x", "1"), message("y", "1"))
	require.Equal(t, []string{"x", "y"}, values(t, a, 2))
	n.Set("alpha", memlink.Weather{Line: memlink.Cut})
	send(t, h, message("x", ""), message("z", "1"))
	n.Age("alpha")
	n.Set("alpha", memlink.Weather{})
	require.Equal(t, []string{"z"}, values(t, a, 1))

	next, err := n.Agent("alpha", presence).Dial(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"x", "y", "z"}, values(t, next, 3), "the copy keeps what it was never told to drop")
}

func TestNewProcessKillsTheOneBefore(t *testing.T) {
	n := memlink.New(memlink.Config{})
	first := n.Hub(presence)
	ran := make(chan error, 1)
	go func() { ran <- first.Run(context.Background()) }()
	h, err := first.Link(t.Context(), "alpha")
	require.NoError(t, err)
	first2 := n.Agent("alpha", presence)
	a, err := first2.Dial(t.Context())
	require.NoError(t, err)

	n.Hub(presence)
	require.Error(t, <-ran)
	require.ErrorIs(t, h.Send(t.Context(), message("x", "1")), transport.ErrClosed)
	_, err = first.Link(t.Context(), "alpha")
	require.ErrorIs(t, err, transport.ErrClosed)

	n.Agent("alpha", presence)
	require.ErrorIs(t, a.Send(t.Context(), message("x", "1")), transport.ErrClosed)
	_, err = first2.Dial(t.Context())
	require.ErrorIs(t, err, transport.ErrClosed)
}

func TestHubRunsOnce(t *testing.T) {
	h := memlink.New(memlink.Config{}).Hub(presence)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	require.ErrorIs(t, h.Run(ctx), cause)
	require.ErrorContains(t, h.Run(t.Context()), "has run")
}

func TestLinkWaitsForRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := memlink.New(memlink.Config{}).Hub(presence)
		opened := make(chan error, 1)
		go func() {
			_, err := h.Link(t.Context(), "alpha")
			opened <- err
		}()
		synctest.Wait()
		require.Empty(t, opened)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- h.Run(ctx) }()
		require.NoError(t, <-opened)
		cancel()
		require.ErrorIs(t, <-ran, context.Canceled)
	})
}

// TestPoorWeather shows that each fault happens, and does no harm.
func TestPoorWeather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memlink.Weather{Delay: 10 * time.Millisecond, Repeat: 0.2, Break: 0.05}
		n := memlink.New(memlink.Config{Seed: 7, Keeps: true, Weather: w})
		h, a := open(t, n, "alpha")
		r := linktest.Read(t.Context(), a, true)
		send(t, h, numbered(500)...)
		require.NoError(t, r.Wait(t.Context(), func(s *linktest.Seen) bool { return len(s.Values) == 500 }))
		r.Look(func(s *linktest.Seen) {
			require.Greater(t, s.Ups, 5, "the connection did not break")
			require.Greater(t, s.Given, s.Places+50, "nothing was repeated")
		})
		require.NoError(t, a.Close())
		require.ErrorIs(t, r.End(), transport.ErrClosed)
	})
}

// TestChanceIsSeeded: values of different keys overtake each other as the seed says.
func TestChanceIsSeeded(t *testing.T) {
	order := func(seed uint64, delay time.Duration) (keys []string) {
		synctest.Test(t, func(t *testing.T) {
			n := memlink.New(memlink.Config{Seed: seed, Weather: memlink.Weather{Delay: delay}})
			h, a := open(t, n, "alpha")
			send(t, h, numbered(50)...)
			keys = values(t, a, 50)
		})
		return keys
	}
	require.IsIncreasing(t, order(1, 0))
	poor := order(1, time.Second)
	require.IsIncreasing(t, order(2, 0))
	require.Equal(t, poor, order(1, time.Second))
	require.NotEqual(t, poor, order(2, time.Second))
	require.NotEqual(t, poor, order(1, 0))
}

func TestShortBlackHoleIsNotNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memlink.New(memlink.Config{Keeps: true, Notice: time.Minute})
		h, a := open(t, n, "alpha")
		require.Equal(t, transport.Replayed, receive(t, a, 1)[0].Event)
		require.Equal(t, transport.Up, receive(t, a, 1)[0].Event)
		for _, d := range []time.Duration{59 * time.Second, 59 * time.Second} {
			n.Set("alpha", memlink.Weather{Line: memlink.BlackHole})
			send(t, h, message("x", d.String()))
			ctx, cancel := context.WithTimeout(t.Context(), d)
			_, err := a.Receive(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
			n.Set("alpha", memlink.Weather{})
			require.Equal(t, transport.Value, receive(t, a, 1)[0].Event)
		}
		start := time.Now()
		n.Set("alpha", memlink.Weather{Line: memlink.BlackHole})
		require.Equal(t, transport.Down, receive(t, a, 1)[0].Event)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestSetAllReachesLinesToCome(t *testing.T) {
	n := memlink.New(memlink.Config{Keeps: true})
	n.SetAll(memlink.Weather{Line: memlink.Cut})
	h, _ := open(t, n, "alpha")
	send(t, h, message("x", "1"))
	down, _ := n.Traffic("alpha")
	require.Zero(t, down)
	n.SetAll(memlink.Weather{})
	down, _ = n.Traffic("alpha")
	require.Equal(t, memlink.Traffic{Values: 1}, down)
}

// BenchmarkFleet sends ten values to each of a thousand agents, and receives them.
func BenchmarkFleet(b *testing.B) {
	n := memlink.New(memlink.Config{Keeps: true})
	hub := n.Hub(presence)
	go func() { _ = hub.Run(b.Context()) }()
	var ends [][2]transport.Link
	for i := range 1000 {
		name := fmt.Sprintf("agent-%d", i)
		h, err := hub.Link(b.Context(), name)
		require.NoError(b, err)
		a, err := n.Agent(name, presence).Dial(b.Context())
		require.NoError(b, err)
		ends = append(ends, [2]transport.Link{h, a})
	}
	all := numbered(10)
	for b.Loop() {
		for _, e := range ends {
			for _, m := range all {
				_ = e[0].Send(b.Context(), m)
			}
			for got := 0; got < len(all); {
				d, err := e[1].Receive(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if d.Event == transport.Value {
					got++
				}
			}
		}
	}
}
