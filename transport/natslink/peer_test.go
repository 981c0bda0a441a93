package natslink

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A listener is a peer, and what Receive tells of it.
type listener struct {
	*peer
	t    *testing.T
	link bool // whether there is one
}

func listen(t *testing.T) *listener {
	m := newMailbox()
	m.taken(transport.Delivery{Event: transport.Replayed})
	s := newStreamer(linkConfig{zap: zap.NewNop(), session: func() uint64 { return 1 }}, "mine")
	t.Cleanup(s.mux.Close)
	l := &listener{t: t, link: true}
	l.peer = newPeer(m, s, func() bool { return l.link }, 2500*time.Millisecond, func(time.Duration) {})
	return l
}

// tells demands that these, and no others, are what Receive returns next.
func (l *listener) tells(want ...transport.Event) {
	l.t.Helper()
	var got []transport.Event
	for {
		d, any := l.mailbox.news()
		if !any {
			break
		}
		got = append(got, d.Event)
	}
	require.Equal(l.t, want, got)
}

func TestPeerThatSaysGoodbyeIsNotConnected(t *testing.T) {
	l, now := listen(t), time.Now()
	first, next := hello{Link: "first", Process: "one"}, hello{Link: "next", Process: "two"}
	require.True(t, l.open(), "it may be about to say something")
	l.says(first, now)
	l.tells(transport.Up)
	require.True(t, l.open())
	l.leaves(first)
	l.tells(transport.Down)
	require.False(t, l.open(), "it is about to stop listening")
	l.says(first, now)
	require.False(t, l.open(), "it was sent before")

	l.says(next, now)
	l.tells(transport.Up)
	require.True(t, l.open())
	l.leaves(first)
	l.tells()
	require.True(t, l.open(), "it is another that has left")

	l.leaves(next)
	l.tells(transport.Down)
	l.link = false
	l.look(now)
	require.False(t, l.open())
	l.link = true
	require.True(t, l.open(), "whoever listens now has not left")
}

// TestPeerIsNotHeardOverALinkThatIsGone: what it has said before comes late.
func TestPeerIsNotHeardOverALinkThatIsGone(t *testing.T) {
	l, now := listen(t), time.Now()
	h := hello{Link: "first", Process: "one"}
	l.says(h, now)
	l.tells(transport.Up)
	l.link = false
	l.look(now.Add(settle))
	l.tells()
	now = now.Add(settle + 1)
	l.look(now)
	l.tells(transport.Down)
	l.says(h, now)
	l.tells()
	since, last := l.state()
	require.Zero(t, since)
	require.Equal(t, now.Add(-settle-1), last)

	l.link = true
	l.look(now)
	l.tells()
	l.says(h, now)
	l.tells(transport.Up)
	l.look(now.Add(2500 * time.Millisecond))
	l.tells()
	l.look(now.Add(2501 * time.Millisecond))
	l.tells(transport.Down)
}
