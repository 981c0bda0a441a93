package multihub

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

const agent = "alpha"

// A scene is a principal with two carriers, of which the first keeps what it has, and an agent.
type scene struct {
	*testing.T
	*network
	hub  transport.Hub
	ends []transport.Link
}

// play plays a story in virtual time, and ends all that it has started.
func play(t *testing.T, story func(s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, network: newNetwork(t, memlink.Config{Seed: 1, Keeps: true}, memlink.Config{Seed: 2})}
		s.hub = s.StartHub(t)
		story(s)
		for _, l := range s.ends {
			require.NoError(t, l.Close())
		}
		s.StopHub(t)
	})
}

// An end is one end of the link, and what it has received.
type end struct {
	*scene
	transport.Link
	*linktest.Reader
}

func (s *scene) open(l transport.Link, err error) end {
	s.Helper()
	require.NoError(s, err)
	s.ends = append(s.ends, l)
	return end{s, l, linktest.Read(s.Context(), l, true)}
}

func (s *scene) link() end { s.Helper(); return s.open(s.hub.Link(s.Context(), agent)) }

// comes starts the agent on a carrier, with nothing that was kept there before.
func (s *scene) comes(on *memlink.Network) end {
	s.Helper()
	on.Lose(agent, memlink.AgentCopy)
	on.Lose(agent, memlink.AgentLog)
	return s.open(on.Agent(agent, presence).Dial(s.Context()))
}

func (e end) put(key, value string) {
	e.Helper()
	ev := event.New()
	ev.SetID(value)
	ev.SetSource("/test")
	ev.SetType("test")
	require.NoError(e, ev.SetData(event.TextPlain, []byte(value)))
	require.NoError(e, e.Send(e.Context(), transport.Message{Key: key, Digest: value, Event: ev}))
}

func (e end) await(what string, ok func(*linktest.Seen) bool) {
	e.Helper()
	require.NoError(e, e.Wait(e.Context(), ok), what)
}

func (e end) awaitUp() {
	e.Helper()
	e.await("up", func(s *linktest.Seen) bool { return s.Peer != nil })
}
func (e end) awaitDown() {
	e.Helper()
	e.await("down", func(s *linktest.Seen) bool { return s.Peer == nil })
}
func (e end) awaitLost(n int) {
	e.Helper()
	e.await("lost", func(s *linktest.Seen) bool { return s.Lost == n })
}

func (e end) awaitValue(key, value string) {
	e.Helper()
	e.await(key+" "+value, func(s *linktest.Seen) bool { return s.Values[key].Message.Digest == value })
}

func (s *scene) kept(on transport.Hub) []string {
	kept, err := on.Kept(s.Context())
	require.NoError(s, err)
	return kept
}

// TestAnAgentGoesOver: values pass on either carrier, and the log of the one that was left is lost.
func TestAnAgentGoesOver(t *testing.T) {
	play(t, func(s *scene) {
		h, a := s.link(), s.comes(s.first)
		h.put("k", "1")
		a.put("k", "up-1")
		a.awaitValue("k", "1")
		h.awaitValue("k", "up-1")
		for i, on := range []*memlink.Network{s.second, s.first} {
			before, err := h.Log(s.Context())
			require.NoError(t, err)
			require.NoError(t, a.Close())
			h.awaitDown()
			value := []string{"2", "3"}[i]
			a = s.comes(on)
			h.awaitLost(i + 1)
			h.awaitUp()
			after, err := h.Log(s.Context())
			require.NoError(t, err)
			require.NotEqual(t, before.Epoch, after.Epoch)
			require.Empty(t, after.Rows, "a log of before")
			h.put("k", value)
			a.put("k", "up-"+value)
			a.awaitValue("k", value)
			h.awaitValue("k", "up-"+value)
			a.Look(func(s *linktest.Seen) { require.Equal(t, 1, s.Places, "what it was told on the carrier that it left") })
		}
	})
}

// TestWhereAnAgentIsOutlivesTheProcess: and so does what the carrier keeps where it is; elsewhere
// nothing is kept.
func TestWhereAnAgentIsOutlivesTheProcess(t *testing.T) {
	play(t, func(s *scene) {
		s.first, s.second = s.second, s.first // the one that keeps is the second
		s.StopHub(t)
		s.hub = s.StartHub(t)
		h, a := s.link(), s.comes(s.second)
		h.awaitLost(1)
		h.awaitUp()
		h.put("k", "1")
		a.put("k", "up-1")
		h.awaitValue("k", "up-1")
		a.awaitValue("k", "1")
		require.NoError(t, a.Close())
		h.awaitDown()
		s.StopHub(t)
		s.hub = s.StartHub(t)
		h = s.link()
		h.awaitValue("k", "up-1")
		log, err := h.Log(s.Context())
		require.NoError(t, err)
		require.Contains(t, log.Rows, "k")
		require.NoError(t, h.Close())
		require.NoError(t, s.hub.Forget(s.Context(), agent))
		require.Empty(t, s.kept(s.hub))
		require.ErrorIs(t, s.hub.Forget(s.Context(), agent), transport.ErrUnknown)
		h = s.link()
		log, err = h.Log(s.Context())
		require.NoError(t, err)
		require.False(t, log.Keeps, "an agent that was forgotten is looked for on the first")
	})
}

// TestTheNewestProcessWins: the one that was there is cut off, and let in again later.
func TestTheNewestProcessWins(t *testing.T) {
	play(t, func(s *scene) {
		h, a := s.link(), s.comes(s.first)
		h.awaitUp()
		s.comes(s.second).awaitUp()
		h.await("lost", func(s *linktest.Seen) bool { return s.Lost > 0 })
		a.await("cut off", func(s *linktest.Seen) bool { return s.Peer == nil || s.Ups > 1 })
		a.await("its turn again", func(s *linktest.Seen) bool { return s.Ups > 1 })
		h.await("the turn of the first", func(s *linktest.Seen) bool { return s.Lost > 1 }) // and so on
	})
}

// TestStreamsGoOver: those of the carrier that was left fail as if the peer had gone, and whoever
// accepts gets those of the next.
func TestStreamsGoOver(t *testing.T) {
	play(t, func(s *scene) {
		h, a := s.link(), s.comes(s.first)
		h.awaitUp()
		a.awaitUp()
		accepted := make(chan string)
		go func() {
			for {
				_, c, err := h.Streams().Accept(s.Context())
				if err != nil {
					close(accepted)
					return
				}
				text, _ := io.ReadAll(c)
				accepted <- string(text)
				_ = c.Close()
			}
		}()
		say := func(from end, text string) {
			c, err := from.Streams().Open(s.Context(), "test")
			require.NoError(t, err)
			_, err = io.WriteString(c, text)
			require.NoError(t, err)
			require.NoError(t, c.Close())
		}
		say(a, "one")
		require.Equal(t, "one", <-accepted)
		left, err := h.Streams().Open(s.Context(), "test")
		require.NoError(t, err)
		b := s.comes(s.second)
		h.awaitLost(1)
		_, err = left.Read(make([]byte, 1))
		require.ErrorIs(t, err, transport.ErrAway)
		require.NoError(t, left.Close())
		b.awaitUp()
		h.awaitUp()
		say(b, "two")
		require.Equal(t, "two", <-accepted)
		require.NoError(t, h.Close())
		_, open := <-accepted
		require.False(t, open)
	})
}

// A moody hub fails to open links while it is said to.
type moody struct {
	transport.Hub
	fails *atomic.Int32
}

func (m moody) Link(ctx context.Context, agent string) (transport.Link, error) {
	if m.fails.Add(-1) >= 0 {
		return nil, errors.New("no space")
	}
	return m.Hub.Link(ctx, agent)
}

// TestACarrierThatFails does not keep an agent from the others, and is tried again.
func TestACarrierThatFails(t *testing.T) {
	play(t, func(s *scene) {
		s.StopHub(t)
		var fails atomic.Int32
		fails.Store(3)
		s.hub = s.start(t, Carrier{"first", s.first.Hub(presence)}, Carrier{"second", moody{s.second.Hub(presence), &fails}})
		h, a := s.link(), s.comes(s.first)
		h.awaitUp()
		require.NoError(t, a.Close())
		s.comes(s.second).awaitUp()
		h.awaitLost(1)
		require.Negative(t, fails.Load())
	})
}

// TestAFileThatIsNone: it is told at start, and stays as it is.
func TestAFileThatIsNone(t *testing.T) {
	n := newNetwork(t, memlink.Config{}, memlink.Config{})
	require.NoError(t, os.MkdirAll(n.path, 0o700))
	h := n.StartHub(t)
	require.ErrorIs(t, <-n.stopped, transport.ErrStore)
	_, err := h.Link(t.Context(), agent)
	require.ErrorIs(t, err, transport.ErrClosed)
	n.stop()
}
