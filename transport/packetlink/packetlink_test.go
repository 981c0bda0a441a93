package packetlink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func message(key, data string) transport.Message {
	e := event.New()
	e.SetID("id of " + key)
	e.SetSource("test")
	e.SetType("test")
	e.SetSubject(key)
	if data == "" {
		return transport.Message{Key: key, Event: e}
	}
	e.DataEncoded = []byte(data)
	e.SetDataContentType("application/json")
	return transport.Message{Key: key, Digest: fmt.Sprintf("digest of %.9s", data), Event: e}
}

func open(t *testing.T, local, peer string, k Keeper) *End {
	e, err := Open(Config{Local: local, Peer: peer, Keeper: k})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// receive returns what is received next.
func receive(t *testing.T, e *End) transport.Delivery {
	t.Helper()
	d, err := e.Receive(t.Context())
	require.NoError(t, err)
	d.Ack()
	return d
}

// expect expects that these are received next.
func expect(t *testing.T, e *End, want ...transport.Event) {
	t.Helper()
	for _, event := range want {
		require.Equal(t, event, receive(t, e).Event)
	}
}

// values returns the next n values by key.
func values(t *testing.T, e *End, n int) map[string]transport.Message {
	t.Helper()
	out := map[string]transport.Message{}
	for range n {
		d := receive(t, e)
		require.Equal(t, transport.Value, d.Event)
		out[d.Message.Key] = d.Message
	}
	return out
}

// carry carries all packets of one connection to the other, and returns their sizes.
func carry(t *testing.T, from, to *Connection) (sizes []int) {
	t.Helper()
	for {
		p := from.Next(nil, time.Now())
		if len(p) == 0 {
			return sizes
		}
		sizes = append(sizes, len(p))
		require.NoError(t, to.Take(p, time.Now()))
	}
}

func TestTheWholeTableCrossesWithEveryConnection(t *testing.T) {
	hub, agent := open(t, "principal", "edge", nil), open(t, "edge", "principal", nil)
	expect(t, hub, transport.Replayed)
	expect(t, agent, transport.Replayed)
	for _, m := range []transport.Message{message("a", `"1"`), message("a", `{"b": 2}`), message("gone", "")} {
		require.NoError(t, hub.Send(t.Context(), m))
	}
	down, up := hub.Begin(transport.Presence{Process: "p"}), agent.Begin(transport.Presence{Process: "q"})
	carry(t, down, up)
	carry(t, up, down)
	require.Equal(t, transport.Delivery{Event: transport.Up, Presence: transport.Presence{Process: "q"}}.Presence, receive(t, agent).Presence)
	first := values(t, agent, 2)
	require.Equal(t, map[string]transport.Message{"a": message("a", `{"b": 2}`), "gone": message("gone", "")}, first)
	require.Empty(t, down.Next(nil, time.Now()))

	agent.End("cut")
	hub.End("cut")
	expect(t, agent, transport.Down)
	require.NoError(t, hub.Send(t.Context(), message("b", "3")))
	require.Empty(t, down.Next(nil, time.Now()), "it is over")
	require.NoError(t, up.Take([]byte("nonsense"), time.Now()), "so is this one")
	down, up = hub.Begin(transport.Presence{}), agent.Begin(transport.Presence{})
	carry(t, down, up)
	expect(t, agent, transport.Up)
	require.Len(t, values(t, agent, 3), 3)

	log, err := hub.Log(t.Context())
	require.NoError(t, err)
	require.False(t, log.Keeps)
	require.Empty(t, log.Rows)
}

func TestPacketsAreShortAndTakeTurns(t *testing.T) {
	hub, agent := open(t, "principal", "edge", nil), open(t, "edge", "principal", nil)
	down, up := hub.Begin(transport.Presence{}), agent.Begin(transport.Presence{})
	c, err := hub.Streams().Open(t.Context(), "bulk")
	require.NoError(t, err)
	defer c.Close()
	for _, key := range []string{"a", "b", "c", "d"} {
		require.NoError(t, hub.Send(t.Context(), message(key, strings.Repeat("x", mux.MaxPacket))))
	}
	first, second := down.Next(nil, time.Now()), down.Next(nil, time.Now())
	require.ElementsMatch(t, []byte{ofTable, ofStreams}, []byte{first[0], second[0]})
	for _, p := range [][]byte{first, second} {
		require.NoError(t, up.Take(p, time.Now()))
	}
	for _, size := range carry(t, down, up) {
		require.Less(t, size, mux.MaxPacket+1024, "one message each")
	}
	service, d, err := agent.Streams().Accept(t.Context())
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.Equal(t, "bulk", service)
}

func TestALogIsKeptAndBegunAnewWhenItIsLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	e, err := Open(Config{Local: "edge", Peer: "principal", Keeper: &File{Path: path}})
	require.NoError(t, err)
	require.NoError(t, e.Send(t.Context(), message("a", "1")))
	require.NoError(t, e.Send(t.Context(), message("$b", "2")))
	require.NoError(t, e.Send(t.Context(), message("a", "3")))
	before, err := e.Log(t.Context())
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
	require.ErrorIs(t, e.Send(t.Context(), message("a", "4")), transport.ErrClosed)

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(text, 200, 1, 'x'), 0o600), "one that was not written whole")
	e = open(t, "edge", "principal", &File{Path: path})
	after, err := e.Log(t.Context())
	require.NoError(t, err)
	require.True(t, after.Keeps)
	require.Equal(t, before, after)
	require.Equal(t, "2", string(after.Rows["$b"].Event.Data()))
	require.Equal(t, "digest of 3", after.Rows["a"].Digest)
	expect(t, e, transport.Replayed)

	require.NoError(t, e.Check())
	require.NoError(t, os.Remove(path))
	require.NoError(t, e.Send(t.Context(), message("c", "5")))
	expect(t, e, transport.LogLost)
	lost, err := e.Log(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, before.Epoch, lost.Epoch)
	require.Len(t, lost.Rows, 1)
	require.NoError(t, os.Remove(path))
	require.NoError(t, e.Check())
	expect(t, e, transport.LogLost)
}

func TestPacketsAgainstTheRulesAreRefused(t *testing.T) {
	c := open(t, "edge", "principal", nil).Begin(transport.Presence{})
	good, err := appendMessage([]byte{ofTable}, message("a", "1"))
	require.NoError(t, err)
	require.NoError(t, c.Take(good, time.Now()))
	for n := 2; n < len(good); n++ {
		require.Error(t, c.Take(good[:n:n], time.Now()), "it is cut off at %d", n)
	}
	for _, packet := range []string{"", "x", "s\xff", "t\x01a\x00\x01{\x00", "t\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		require.Error(t, c.Take([]byte(packet), time.Now()), "%q", packet)
	}
	require.Error(t, func() error { _, err := appendMessage(nil, transport.Message{Key: "no event"}); return err }())
}

func TestAHubHasOneLinkToEachAgent(t *testing.T) {
	kept := map[string]bool{}
	h := NewHub(HubConfig{
		Open: func(agent string) (transport.Link, error) {
			kept[agent] = true
			return Open(Config{Local: "principal", Peer: agent})
		},
		Forget: func(agent string) error {
			if !kept[agent] {
				return transport.ErrUnknown
			}
			delete(kept, agent)
			return nil
		},
		Kept: func() ([]string, error) { return []string{"edge"}, nil },
	})
	early, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Link(early, "edge")
	require.ErrorIs(t, err, context.Canceled, "it does not run yet")

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	l, err := h.Link(t.Context(), "edge")
	require.NoError(t, err)
	_, err = h.Link(t.Context(), "edge")
	require.ErrorContains(t, err, "another one is open")
	require.ErrorContains(t, h.Forget(t.Context(), "edge"), "open")
	require.NoError(t, l.Close())
	require.NoError(t, h.Forget(t.Context(), "edge"))
	require.ErrorIs(t, h.Forget(t.Context(), "edge"), transport.ErrUnknown)
	l, err = h.Link(t.Context(), "edge")
	require.NoError(t, err)
	names, err := h.Kept(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"edge"}, names)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	_, err = l.Receive(t.Context())
	require.ErrorIs(t, err, transport.ErrClosed)
	_, err = h.Link(t.Context(), "edge")
	require.ErrorIs(t, err, transport.ErrClosed)
	_, err = h.Kept(early)
	require.ErrorIs(t, err, context.Canceled)

	bad := errors.New("no folder")
	_, err = NewDialer(func() (transport.Link, error) { return nil, bad }).Dial(t.Context())
	require.ErrorIs(t, err, bad)
}
