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
	t *testing.T
}

func listen(t *testing.T) listener {
	m := newMailbox()
	m.taken(transport.Delivery{Event: transport.Replayed})
	s := newStreamer(linkConfig{zap: zap.NewNop(), session: func() uint64 { return 1 }}, "mine")
	t.Cleanup(s.mux.Close)
	return listener{newPeer(m, s, 2500*time.Millisecond, func(time.Duration) {}), t}
}

// tells demands that these, and no others, are what Receive returns next.
func (l listener) tells(want ...transport.Event) {
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
	require.True(t, l.open(true), "it may be about to say something")
	l.says(first, now)
	l.tells(transport.Up)
	require.True(t, l.open(true))
	l.leaves(first)
	l.tells(transport.Down)
	require.False(t, l.open(true), "it is about to stop listening")
	l.says(first, now)
	require.False(t, l.open(true), "it was sent before")

	l.says(next, now)
	l.tells(transport.Up)
	require.True(t, l.open(true))
	l.leaves(first)
	l.tells()
	require.True(t, l.open(true), "it is another that has left")

	l.leaves(next)
	l.tells(transport.Down)
	l.look(false, now)
	require.False(t, l.open(false))
	require.True(t, l.open(true), "whoever listens now has not left")
}
