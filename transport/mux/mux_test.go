package mux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/nettest"

	"github.com/argocd-fabric/argocd-agent/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A couple is two Muxes. Packets cross when carry is called, or by themselves.
type couple struct {
	t        testing.TB
	muxes    [2]*Mux
	sessions [2]*Session
	wake     chan struct{}
}

func newCouple(t testing.TB) *couple {
	p := &couple{t: t, wake: make(chan struct{}, 1)}
	for i := range p.muxes {
		p.muxes[i] = New(Config{Local: names[i], Peer: names[1-i], Wake: p.woken})
		p.sessions[i] = p.muxes[i].Begin()
	}
	return p
}

var names = [2]string{"one", "other"}

func (p *couple) woken() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// carry lets packets cross until there are no more.
func (p *couple) carry() {
	for crossed := true; crossed; {
		crossed = false
		for i, s := range p.sessions {
			packet := s.Next(nil, time.Now())
			if len(packet) == 0 {
				continue
			}
			crossed = true
			require.LessOrEqual(p.t, len(packet), MaxPacket+transport.MaxService+100)
			require.NoError(p.t, p.sessions[1-i].Take(packet, time.Now()))
		}
	}
}

// run carries until the function that it returns is called.
func (p *couple) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			p.carry()
			select {
			case <-p.wake:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// stream opens a stream, and returns its ends.
func (p *couple) stream() (one, other *conn) {
	c, err := p.muxes[0].Open(p.t.Context(), "service")
	require.NoError(p.t, err)
	_, d, err := p.muxes[1].Accept(p.t.Context())
	require.NoError(p.t, err)
	return c.(*conn), d.(*conn)
}

func TestConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		p := newCouple(t)
		halt := p.run()
		one, other := p.stream()
		return one, other, func() {
			_, _ = one.Close(), other.Close()
			halt()
		}, nil
	})
}

// TestTraffic has many streams opened, written, half closed and closed at random, in
// virtual time, and demands that nothing is lost and nothing is left.
func TestTraffic(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			p := newCouple(t)
			stop := p.run()
			defer stop()
			rnd := rand.New(rand.NewPCG(seed, 0))
			var all sync.WaitGroup
			for range 8 {
				one, other := p.stream()
				text := make([]byte, rnd.IntN(2*window))
				_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(text)
				piece := 1 + rnd.IntN(100_000)
				all.Go(func() { require.NoError(t, inPieces(one, text, piece)) })
				all.Go(func() {
					got, err := io.ReadAll(other)
					require.NoError(t, err)
					require.True(t, bytes.Equal(text, got))
					require.NoError(t, inPieces(other, got, piece))
				})
				all.Go(func() {
					got, err := io.ReadAll(one)
					require.NoError(t, err)
					require.True(t, bytes.Equal(text, got))
				})
			}
			all.Wait()
			synctest.Wait()
			for _, s := range p.sessions {
				require.Empty(t, s.streams)
				require.Equal(t, [2]int{}, s.count)
				require.Empty(t, s.control)
				require.Empty(t, s.ready)
			}
		})
	}
}

// inPieces writes text in pieces, and ends.
func inPieces(c *conn, text []byte, piece int) error {
	for len(text) > 0 {
		n, err := c.Write(text[:min(piece, len(text))])
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return c.CloseWrite()
}

func TestNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newCouple(t)
		stop := p.run()
		defer stop()
		c, err := p.muxes[0].Open(t.Context(), "service")
		require.NoError(t, err)
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
		n, err := c.Write(make([]byte, 1<<20))
		require.ErrorContains(t, err, "i/o timeout")
		require.Equal(t, early, n, "before the stream is accepted")
		_, d, err := p.muxes[1].Accept(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
		n, err = c.Write(make([]byte, 1<<20))
		require.Error(t, err)
		require.Equal(t, window-early, n)
		require.NoError(t, c.SetWriteDeadline(time.Time{}))
		wrote := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, window))
			wrote <- errors.Join(err, c.Close())
		}()
		got, err := io.ReadAll(d)
		require.NoError(t, err)
		require.Len(t, got, 2*window)
		require.NoError(t, <-wrote)
		require.NoError(t, d.Close())
	})
}

func TestOpenWaitsForTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{Local: "one", Peer: "other", Wake: func() {}})
		_, err := m.Open(t.Context(), "service")
		require.ErrorIs(t, err, transport.ErrAway)
		opened := make(chan error)
		open := func() {
			_, err := m.Open(t.Context(), "service")
			opened <- err
		}
		m.Expect("test")
		go open()
		go open()
		synctest.Wait()
		m.Begin()
		require.NoError(t, <-opened)
		require.NoError(t, <-opened)
		m.Expect("test")
		go open()
		synctest.Wait()
		m.End("test")
		require.ErrorIs(t, <-opened, transport.ErrAway)
		m.Expect("test")
		go open()
		synctest.Wait()
		m.Close()
		require.ErrorIs(t, <-opened, transport.ErrClosed)
		m.Begin()
		_, err = m.Open(t.Context(), "service")
		require.ErrorIs(t, err, transport.ErrClosed)
	})
}

// TestWhatHasArrivedIsRead: a whole answer is read to its end after the session is gone, and
// half of one is not taken for a whole.
func TestWhatHasArrivedIsRead(t *testing.T) {
	for _, whole := range []bool{true, false} {
		t.Run(fmt.Sprint(whole), func(t *testing.T) {
			p := newCouple(t)
			stop := p.run()
			one, other := p.stream()
			_, err := one.Write([]byte("answer"))
			require.NoError(t, err)
			if whole {
				require.NoError(t, one.CloseWrite())
			}
			stop()
			p.carry()
			p.muxes[1].End("test")
			got, err := io.ReadAll(other)
			require.Equal(t, "answer", string(got))
			if whole {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, transport.ErrAway)
			}
			_, err = other.Write([]byte("more"))
			require.ErrorIs(t, err, transport.ErrAway)
		})
	}
}

// packet returns a packet of frames that a peer sends.
func packet(frames ...frame) []byte {
	var b []byte
	for _, f := range frames {
		b = appendFrame(b, f)
	}
	return b
}

func opening(n uint64) frame {
	return frame{kind: frameOpen, id: id{n, true}, text: []byte("service")}
}

func TestRules(t *testing.T) {
	theirs, ours := id{1, true}, id{1, false}
	long := bytes.Repeat([]byte("x"), transport.MaxService+1)
	for name, p := range map[string][]byte{
		"unknown kind":             {byte(frameKinds), 0},
		"no kind":                  {0, 0},
		"cut off in the id":        {byte(frameFin)},
		"cut off in the text":      {byte(frameData), 2, 5, 'x'},
		"endless number":           {byte(frameTaken), 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
		"open out of order":        packet(opening(2)),
		"open again":               packet(opening(1), opening(1)),
		"open in our name":         packet(frame{kind: frameOpen, id: id{2, false}, text: []byte("service")}),
		"open without a service":   packet(frame{kind: frameOpen, id: theirs}),
		"open for a long service":  packet(frame{kind: frameOpen, id: theirs, text: long}),
		"data for no stream":       packet(frame{kind: frameData, id: theirs, text: []byte("x")}),
		"word on no stream":        packet(frame{kind: frameStop, id: id{0, true}}),
		"data beyond the limit":    packet(opening(1), frame{kind: frameData, id: theirs, text: make([]byte, early+1)}),
		"data after the end":       packet(opening(1), frame{kind: frameFin, id: theirs}, frame{kind: frameData, id: theirs, text: []byte("x")}),
		"data beyond our window":   packet(frame{kind: frameData, id: ours, text: make([]byte, window+1)}),
		"taken what was not sent":  packet(frame{kind: frameTaken, number: 1}),
		"refusal of its own":       packet(opening(1), frame{kind: frameRefuse, id: theirs}),
		"frame after a good frame": append(packet(opening(1)), 99, 99),
	} {
		t.Run(name, func(t *testing.T) {
			m := New(Config{Local: "one", Peer: "other", Wake: func() {}})
			s := m.Begin()
			c, err := m.Open(t.Context(), "ours")
			require.NoError(t, err)
			require.Error(t, s.Take(p, time.Now()))
			_, err = c.Read(make([]byte, 1))
			require.ErrorIs(t, err, transport.ErrAway)
			require.NoError(t, s.Take(packet(opening(1)), time.Now()), "nothing is heard of a session that has ended")
			require.Empty(t, s.Next(nil, time.Now()))
		})
	}
}

// TestFlood: who opens beyond the limit is refused, and who does so without end is cut off.
func TestFlood(t *testing.T) {
	m := New(Config{Local: "one", Peer: "other", Wake: func() {}})
	s := m.Begin()
	n := uint64(0)
	open := func(times int) (err error) {
		for ; times > 0 && err == nil; times-- {
			n++
			err = s.Take(packet(opening(n)), time.Now())
		}
		return err
	}
	require.NoError(t, open(transport.MaxStreams))
	require.Empty(t, s.Next(nil, time.Now()))
	require.NoError(t, open(1))
	f, rest, err := cutFrame(s.Next(nil, time.Now()))
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, frame{kind: frameRefuse, id: id{n, true}}, f)
	require.Len(t, s.streams, transport.MaxStreams)
	require.Len(t, m.waiting, transport.MaxStreams)
	require.NoError(t, s.Take(packet(frame{kind: frameData, id: id{n, true}, text: []byte("in flight")}), time.Now()))
	require.Error(t, open(2*transport.MaxStreams))
	require.Empty(t, m.waiting)
}

// TestEnded: a stream of ours that has ended makes room at once, and the peer takes the next.
func TestEnded(t *testing.T) {
	p := newCouple(t)
	var open []net.Conn
	for range transport.MaxStreams {
		c, err := p.muxes[0].Open(t.Context(), "service")
		require.NoError(t, err)
		open = append(open, c)
	}
	p.carry()
	for range open {
		_, d, err := p.muxes[1].Accept(t.Context())
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
	p.carry()
	for i, c := range open {
		_, err := p.muxes[0].Open(t.Context(), "too many")
		require.Error(t, err)
		if i%2 == 0 {
			_, err = io.ReadAll(c)
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
		c, err = p.muxes[0].Open(t.Context(), "in its place")
		require.NoError(t, err, "the peer was not told yet, and need not be")
		t.Cleanup(func() { _ = c.Close() })
	}
	p.carry()
	for range open {
		service, d, err := p.muxes[1].Accept(t.Context())
		require.NoError(t, err)
		require.Equal(t, "in its place", service)
		require.NoError(t, d.Close())
	}
}

func TestRefused(t *testing.T) {
	p := newCouple(t)
	c, err := p.muxes[0].Open(t.Context(), "service")
	require.NoError(t, err)
	require.NoError(t, p.sessions[0].Take(packet(frame{kind: frameRefuse, id: id{1, false}}), time.Now()))
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, errRefused)
	_, err = c.Write([]byte("text"))
	require.ErrorIs(t, err, errRefused)
	require.NoError(t, c.Close())
	require.Empty(t, p.sessions[0].streams)
}

// TestTurns: a stream with much to send does not hold up one with little.
func TestTurns(t *testing.T) {
	p := newCouple(t)
	stop := p.run()
	bulk, _ := p.stream()
	little, _ := p.stream()
	stop()
	p.carry()
	written := make(chan error, 2)
	for _, c := range []*conn{bulk, little} {
		go func() {
			_, err := c.Write(make([]byte, window/2))
			written <- err
		}()
		<-p.wake
	}
	b := p.sessions[0].Next(nil, time.Now())
	sizes := map[id]int{}
	for len(b) > 0 {
		f, rest, err := cutFrame(b)
		require.NoError(t, err)
		sizes[f.id] += len(f.text)
		b = rest
	}
	require.Len(t, sizes, 2)
	for _, n := range sizes {
		require.GreaterOrEqual(t, n, quantum)
	}
	p.muxes[0].Close()
	require.ErrorIs(t, <-written, transport.ErrClosed)
	require.ErrorIs(t, <-written, transport.ErrClosed)
}

func FuzzTake(f *testing.F) {
	f.Add(packet(opening(1), frame{kind: frameData, id: id{1, true}, text: []byte("text")}, frame{kind: frameFin, id: id{1, true}}))
	f.Add(packet(frame{kind: frameTaken, number: 3}, frame{kind: frameLimit, id: id{1, false}, number: 1 << 40}))
	f.Add(packet(frame{kind: frameRefuse, id: id{1, false}}, frame{kind: frameStop, id: id{1, false}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := New(Config{Local: "one", Peer: "other", Wake: func() {}})
		s := m.Begin()
		_, err := m.Open(t.Context(), "service")
		require.NoError(t, err)
		if s.Take(b, time.Now()) != nil {
			require.Empty(t, s.streams)
			return
		}
		held := 0
		for _, c := range s.streams {
			held += c.in.len()
			require.LessOrEqual(t, uint64(c.in.len()), c.window)
		}
		require.LessOrEqual(t, held, len(b))
		s.Next(nil, time.Now())
	})
}
