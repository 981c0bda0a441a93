package linktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/transport"
)

var streams = []test{
	{name: "Streams/Service", run: streamService},
	{name: "Streams/HalfClose", run: streamHalfClose},
	{name: "Streams/Away", run: streamAway},
	{name: "Streams/Cut", run: func(w *world) { w.streamsApart(Cut) }},
	{name: "Streams/BlackHole", run: func(w *world) { w.streamsApart(BlackHole) }},
	{name: "Streams/Restart/Agent", run: func(w *world) { w.streamsRestart(false) }},
	{name: "Streams/Restart/Hub", run: func(w *world) { w.streamsRestart(true) }},
	{name: "Streams/Close", run: streamsClose},
	{name: "Streams/DeadReader", run: streamDeadReader},
	{name: "Streams/Many", run: streamsMany},
	{name: "Streams/Limit", run: streamsLimit},
	{name: "Streams/SlowLine", run: streamsSlowLine},
	{name: "Streams/HTTP", run: streamsHTTP},
}

// A halfCloser is what every stream is.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// RunConns tests the adapter's streams by the suite that every net.Conn passes, opened by
// either side. It runs in real time, whatever Within is: lines should be fast.
func RunConns(t *testing.T, a Adapter) {
	for _, opener := range []string{"Hub", "Agent"} {
		t.Run(opener, func(t *testing.T) {
			w := newWorld(t, a)
			from, to := w.pair("alpha")
			if opener == "Agent" {
				from, to = to, from
			}
			from.awaitUp()
			to.awaitUp()
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				one, other := w.stream(from, to, "nettest")
				return one, other, func() { _, _ = one.Close(), other.Close() }, nil
			})
		})
	}
}

// stream opens a stream, and returns its two ends.
func (w *world) stream(from, to *end, service string) (one, other halfCloser) {
	w.Helper()
	c, err := from.link.Streams().Open(w.ctx, service)
	require.NoError(w, err)
	named, d, err := to.link.Streams().Accept(w.ctx)
	require.NoError(w, err)
	require.Equal(w, service, named)
	return c.(halfCloser), d.(halfCloser)
}

// streamPair returns both ends of the Link to alpha, each of which knows that the other is
// there.
func (w *world) streamPair() (h, a *end) {
	w.Helper()
	h, a = w.pair("alpha")
	h.awaitUp()
	a.awaitUp()
	return h, a
}

// checkStream demands that a new stream works.
func (w *world) checkStream(from, to *end) {
	w.Helper()
	one, other := w.stream(from, to, "check")
	text := []byte("text")
	_, err := one.Write(text)
	require.NoError(w, err)
	require.NoError(w, one.Close())
	all, err := io.ReadAll(other)
	require.NoError(w, err)
	require.Equal(w, text, all)
	require.NoError(w, other.Close())
}

// streamService: the peer learns what each stream is for, in the order in which they were
// opened.
func streamService(w *world) {
	h, a := w.streamPair()
	for _, ends := range [][2]*end{{h, a}, {a, h}} {
		var opened []net.Conn
		for _, name := range keys("service/", 20) {
			c, err := ends[0].link.Streams().Open(w.ctx, name)
			require.NoError(w, err)
			opened = append(opened, c)
		}
		for i, name := range keys("service/", 20) {
			named, c, err := ends[1].link.Streams().Accept(w.ctx)
			require.NoError(w, err)
			require.Equal(w, name, named)
			require.NotEmpty(w, c.RemoteAddr().String())
			require.NoError(w, c.Close())
			require.NoError(w, opened[i].Close())
		}
	}
	for _, n := range []int{0, transport.MaxService + 1} {
		_, err := h.link.Streams().Open(w.ctx, string(bytes.Repeat([]byte("x"), n)))
		require.Error(w, err)
	}
	one, other := w.stream(h, a, string(bytes.Repeat([]byte("x"), transport.MaxService)))
	require.NoError(w, one.Close())
	require.NoError(w, other.Close())
}

// streamHalfClose: a request that ends is answered, and what is written to one who has
// closed fails.
func streamHalfClose(w *world) {
	h, a := w.streamPair()
	one, other := w.stream(h, a, "echo")
	request := blob(w, 1<<20)
	g := new(errgroup.Group)
	g.Go(func() error {
		all, err := io.ReadAll(other)
		if err != nil {
			return err
		}
		_, err = other.Write(all)
		return errors.Join(err, other.Close())
	})
	_, err := one.Write(request)
	require.NoError(w, err)
	require.NoError(w, one.CloseWrite())
	_, err = one.Write([]byte("more"))
	require.Error(w, err)
	answer, err := io.ReadAll(one)
	require.NoError(w, err)
	require.True(w, bytes.Equal(request, answer))
	require.NoError(w, g.Wait())
	_, err = other.Write([]byte("more"))
	require.ErrorIs(w, err, net.ErrClosed)
	_, err = other.Read(make([]byte, 1))
	require.ErrorIs(w, err, net.ErrClosed)
	require.NoError(w, one.Close())

	one, other = w.stream(a, h, "closed")
	require.NoError(w, other.Close())
	_, err = io.ReadAll(one)
	require.NoError(w, err)
	_, err = one.Write(make([]byte, 1<<20))
	require.Error(w, err)
	require.NotErrorIs(w, err, transport.ErrAway)
	require.NoError(w, one.Close())
}

// streamAway: nobody can be opened a stream to who is not there, and that is said at once.
func streamAway(w *world) {
	w.startHub()
	h := w.openHub("alpha")
	h.awaitReplayed()
	w.checkAway(h)
	a := w.openAgent("alpha")
	h.awaitUp()
	a.awaitUp()
	w.checkStream(h, a)
	w.apart(Cut, h, a)
	w.checkAway(h, a)
	w.heal("alpha")
	h.awaitUp()
	a.awaitUp()
	w.checkStream(h, a)
	w.checkStream(a, h)
	a.close()
	h.awaitDown()
	w.checkAway(h)
}

func (w *world) checkAway(ends ...*end) {
	w.Helper()
	for _, e := range ends {
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		_, err := e.link.Streams().Open(ctx, "service")
		cancel()
		require.ErrorIs(w, err, transport.ErrAway)
	}
}

// streamsApart: calls that wait fail when nothing passes any more, at the latest with Down,
// and what was opened before stays dead.
func (w *world) streamsApart(f Fault) {
	h, a := w.streamPair()
	one, other := w.stream(h, a, "service")
	failed := w.waiting(one, other)
	w.apart(f, h, a)
	w.checkFailed(failed, transport.ErrAway)
	w.heal("alpha")
	h.awaitUp()
	a.awaitUp()
	w.checkDead(transport.ErrAway, one, other)
	w.checkStream(h, a)
	w.checkStream(a, h)
}

// waiting has calls wait on each conn: a Read, and a Write which nobody reads.
func (w *world) waiting(conns ...net.Conn) (failed chan error) {
	failed = make(chan error, 2*len(conns))
	for _, c := range conns {
		go func() {
			_, err := io.Copy(io.Discard, stalled{c})
			failed <- err
		}()
		go func() {
			_, err := c.Write(make([]byte, 4<<20))
			failed <- err
		}()
	}
	return failed
}

// A stalled reads one byte, then waits for there to be nothing more to read.
type stalled struct{ net.Conn }

// Read reads one byte at a time, slowly enough for the writer to wait.
func (s stalled) Read(p []byte) (int, error) { return s.Conn.Read(p[:1]) }

func (w *world) checkFailed(failed chan error, want error) {
	w.Helper()
	for range cap(failed) {
		select {
		case err := <-failed:
			require.ErrorIs(w, err, want)
		case <-w.ctx.Done():
			require.NoError(w, context.Cause(w.ctx))
		}
	}
}

func (w *world) checkDead(want error, conns ...net.Conn) {
	w.Helper()
	for _, c := range conns {
		_, err := c.Write([]byte("text"))
		require.ErrorIs(w, err, want)
		_, err = io.Copy(io.Discard, c)
		require.ErrorIs(w, err, want)
		require.NoError(w, c.Close())
	}
}

// streamsRestart: streams end with the process of either side, and the Link of the other
// goes on to open and accept them.
func (w *world) streamsRestart(hub bool) {
	h, a := w.streamPair()
	for range 3 {
		one, other := w.stream(h, a, "service")
		failed := w.waiting(one)
		if hub {
			failed = w.waiting(other)
			before := a.process()
			h = w.restartHub(h)
			a.awaitNextProcess(map[string]bool{}, before)
			w.checkDead(transport.ErrClosed, one)
			w.checkDead(transport.ErrAway, other)
		} else {
			before := h.process()
			a = w.restartAgent(a)
			h.awaitNextProcess(map[string]bool{}, before)
			w.checkDead(transport.ErrClosed, other)
			w.checkDead(transport.ErrAway, one)
		}
		for range cap(failed) {
			require.Error(w, <-failed)
		}
		h.awaitUp()
		a.awaitUp()
		w.checkStream(h, a)
		w.checkStream(a, h)
	}
}

// streamsClose: a closed Link takes its streams with it, and says so.
func streamsClose(w *world) {
	h, a := w.streamPair()
	one, other := w.stream(h, a, "service")
	ours, theirs := w.waiting(one), w.waiting(other)
	accepted := make(chan error, 1)
	go func() {
		_, _, err := h.link.Streams().Accept(w.ctx)
		accepted <- err
	}()
	h.close()
	w.checkFailed(ours, transport.ErrClosed)
	w.checkFailed(theirs, transport.ErrAway)
	require.ErrorIs(w, <-accepted, transport.ErrClosed)
	_, err := h.link.Streams().Open(w.ctx, "service")
	require.ErrorIs(w, err, transport.ErrClosed)

	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(w.ctx)
	cancel(cause)
	_, _, err = a.link.Streams().Accept(ctx)
	require.ErrorIs(w, err, cause)
	_, err = a.link.Streams().Open(ctx, "service")
	require.ErrorIs(w, err, cause)
}

// streamDeadReader: streams that nobody reads hold up neither the others nor the tables.
func streamDeadReader(w *world) {
	h, a := w.streamPair()
	dead := make(chan error, 20)
	var all []net.Conn
	for range cap(dead) / 2 {
		one, other := w.stream(h, a, "dead")
		all = append(all, one, other)
		for _, c := range []net.Conn{one, other} {
			go func() {
				_, err := c.Write(make([]byte, 4<<20))
				dead <- err
			}()
		}
	}
	w.exchange(h, a, 1, 4<<20)
	down, up := table{}, table{}
	h.traffic(down, 100)
	a.traffic(up, 100)
	a.awaitTable(down)
	h.awaitTable(up)
	require.Empty(w, dead, "a Write has returned")
	for _, c := range all {
		require.NoError(w, c.Close())
	}
	for range cap(dead) {
		require.Error(w, <-dead)
	}
	w.checkStream(h, a)
}

// streamsMany: many streams at once carry much both ways, whole and unmixed.
func streamsMany(w *world) {
	h, a := w.streamPair()
	w.exchange(h, a, 64, 1<<20)
}

func streamsSlowLine(w *world) {
	h, a := w.streamPair()
	w.Fault(w.T, "alpha", Slow)
	w.exchange(h, a, 4, 64<<10)
}

// exchange opens n streams in turn from each side, sends size bytes through each both ways,
// and demands that they are the same.
func (w *world) exchange(h, a *end, n, size int) {
	w.Helper()
	ends := make([][2]halfCloser, n)
	for i := range ends {
		from, to := h, a
		if i%2 == 1 {
			from, to = a, h
		}
		ends[i][0], ends[i][1] = w.stream(from, to, fmt.Sprintf("exchange %d", i))
	}
	g, ctx := errgroup.WithContext(w.ctx)
	for _, e := range ends {
		ours, theirs := blob(w, size), blob(w, size)
		for _, s := range []struct {
			halfCloser
			says, hears []byte
		}{{e[0], ours, theirs}, {e[1], theirs, ours}} {
			stop := context.AfterFunc(ctx, func() { _ = s.Close() })
			g.Go(func() error {
				_, err := s.Write(s.says)
				return errors.Join(err, s.CloseWrite())
			})
			g.Go(func() error {
				defer stop()
				sum := crc32.NewIEEE()
				got, err := io.Copy(sum, s)
				if err == nil && (got != int64(size) || sum.Sum32() != crc32.ChecksumIEEE(s.hears)) {
					err = fmt.Errorf("%d bytes have come, and are not those that were sent", got)
				}
				return err
			})
		}
	}
	require.NoError(w, g.Wait())
}

// blob returns n random bytes, others each time.
func blob(w *world, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(w.next()), byte(w.numbers >> 8)}).Read(b)
	return b
}

// streamsLimit: no more streams than the limit are open of those that a side has opened,
// whether they were accepted or not, and each that ends makes room for another.
func streamsLimit(w *world) {
	h, a := w.streamPair()
	for _, ends := range [][2]*end{{h, a}, {a, h}} {
		from, to := ends[0].link.Streams(), ends[1].link.Streams()
		var open []net.Conn
		for range transport.MaxStreams {
			c, err := from.Open(w.ctx, "service")
			require.NoError(w, err)
			open = append(open, c)
		}
		_, err := from.Open(w.ctx, "service")
		require.Error(w, err)
		require.NotErrorIs(w, err, transport.ErrAway)
		w.checkStream(ends[1], ends[0])
		for _, c := range open {
			_, d, err := to.Accept(w.ctx)
			require.NoError(w, err)
			require.NoError(w, d.Close())
			_, err = io.ReadAll(c)
			require.NoError(w, err)
			require.NoError(w, c.Close())
		}
		w.checkStream(ends[0], ends[1])
	}
}

// streamsHTTP: an unmodified HTTP server and client work over streams.
func streamsHTTP(w *world) {
	h, a := w.streamPair()
	server := &http.Server{Handler: http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		all, err := io.ReadAll(r.Body)
		if err == nil {
			_, _ = to.Write(all) // the client judges what comes of it
		}
	})}
	served := make(chan error, 1)
	accepts, stop := context.WithCancel(w.ctx)
	go func() { served <- server.Serve(listener{accepts, stop, a.link.Streams()}) }()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return h.link.Streams().Open(ctx, "http")
		},
	}}
	g, ctx := errgroup.WithContext(w.ctx)
	for range 10 {
		body := blob(w, 300<<10)
		g.Go(func() error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://alpha/echo", bytes.NewReader(body))
			if err != nil {
				return err
			}
			answer, err := client.Do(r)
			if err != nil {
				return err
			}
			got, err := io.ReadAll(answer.Body)
			if err == nil && !bytes.Equal(got, body) {
				err = errors.New("the answer is another than the request")
			}
			return errors.Join(err, answer.Body.Close())
		})
	}
	require.NoError(w, g.Wait())
	client.CloseIdleConnections()
	require.NoError(w, server.Shutdown(w.ctx))
	require.ErrorIs(w, <-served, http.ErrServerClosed)
}

// A listener gives what Accept does until it is closed.
type listener struct {
	ctx     context.Context
	stop    context.CancelFunc
	streams transport.Streams
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	_, c, err := l.streams.Accept(l.ctx)
	return c, err
}

// Close implements net.Listener.
func (l listener) Close() error {
	l.stop()
	return nil
}

// Addr implements net.Listener.
func (l listener) Addr() net.Addr { return &net.TCPAddr{} }
