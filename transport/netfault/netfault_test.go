package netfault_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo listens and sends back what it gets.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func line(t *testing.T, target string) *netfault.Line {
	l, err := netfault.Listen(func() string { return target })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func connect(t *testing.T, l *netfault.Line) net.Conn {
	c, err := net.Dial("tcp", l.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// say sends text and returns what comes back within d.
func say(t *testing.T, c net.Conn, text string, d time.Duration) (string, error) {
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
	return hear(t, c, len(text), d)
}

func hear(t *testing.T, c net.Conn, n int, d time.Duration) (string, error) {
	require.NoError(t, c.SetReadDeadline(time.Now().Add(d)))
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	return string(b), err
}

func TestHealthyAndSlowLinesPassEverything(t *testing.T) {
	l := line(t, echo(t))
	c := connect(t, l)
	for _, f := range []netfault.Fault{netfault.Healthy, netfault.Slow, netfault.Healthy} {
		l.Set(f)
		got, err := say(t, c, f.String(), time.Minute)
		require.NoError(t, err)
		require.Equal(t, f.String(), got)
	}
}

func TestCutLineClosesConnectionsOldAndNew(t *testing.T) {
	l := line(t, echo(t))
	c := connect(t, l)
	_, err := say(t, c, "before", time.Minute)
	require.NoError(t, err)
	l.Set(netfault.Cut)
	for _, c := range []net.Conn{c, connect(t, l)} {
		_, err := hear(t, c, 1, time.Minute)
		require.Error(t, err)
		require.NotErrorIs(t, err, net.ErrClosed)
		var timeout net.Error
		require.False(t, asTimeout(err, &timeout), "it is open still")
	}
	l.Set(netfault.Healthy)
	got, err := say(t, connect(t, l), "after", time.Minute)
	require.NoError(t, err)
	require.Equal(t, "after", got)
}

func asTimeout(err error, into *net.Error) bool {
	e, ok := err.(net.Error)
	*into = e
	return ok && e.Timeout()
}

func TestBlackHoleKeepsWhatIsSentUntilItHeals(t *testing.T) {
	l := line(t, echo(t))
	c := connect(t, l)
	_, err := say(t, c, "before", time.Minute)
	require.NoError(t, err)
	l.Set(netfault.BlackHole)
	_, err = say(t, c, "kept", 50*time.Millisecond)
	var timeout net.Error
	require.True(t, asTimeout(err, &timeout), "%v", err)
	n := connect(t, l) // is not refused
	_, err = say(t, n, "new", 50*time.Millisecond)
	require.True(t, asTimeout(err, &timeout), "%v", err)
	l.Set(netfault.Healthy)
	for c, want := range map[net.Conn]string{c: "kept", n: "new"} {
		got, err := hear(t, c, len(want), time.Minute)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestNothingBehindTheLine(t *testing.T) {
	l := line(t, "")
	_, err := hear(t, connect(t, l), 1, time.Minute)
	require.ErrorIs(t, err, io.EOF)
}

// TestDroppedConnectionLingersAtTheTarget: who has made it knows at once, the target later,
// and a new one is made meanwhile.
func TestDroppedConnectionLingersAtTheTarget(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, target.Close()) }()
	l := line(t, target.Addr().String())
	c := connect(t, l)
	first, err := target.Accept()
	require.NoError(t, err)
	defer func() { _ = first.Close() }()
	_, err = c.Write([]byte("joined"))
	require.NoError(t, err)
	got, err := hear(t, first, len("joined"), time.Minute)
	require.NoError(t, err)
	require.Equal(t, "joined", got, "the line has both ends, and not the target's alone")
	told := l.Drop(200 * time.Millisecond)
	_, err = hear(t, c, 1, time.Minute)
	require.ErrorIs(t, err, io.EOF)
	var timeout net.Error
	_, err = hear(t, first, 1, 20*time.Millisecond)
	require.True(t, asTimeout(err, &timeout), "%v", err)
	connect(t, l)
	second, err := target.Accept()
	require.NoError(t, err)
	defer func() { _ = second.Close() }()
	<-told
	_, err = hear(t, first, 1, time.Minute)
	require.ErrorIs(t, err, io.EOF)
	_, err = hear(t, second, 1, 20*time.Millisecond)
	require.True(t, asTimeout(err, &timeout), "%v", err)
}
