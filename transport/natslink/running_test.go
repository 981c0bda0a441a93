package natslink

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// joined returns a hub and a leaf that are up, and their Links.
func joined(t *testing.T) (h *Hub, leaf *Leaf, hub, agent transport.Link) {
	p := tlstest.NewAuthority(t)
	h, _ = startHub(t, hubConfig(t, p))
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	leaf, err = NewLeaf(leafConfig(t, p, "north", addr(t, h)))
	require.NoError(t, err)
	agent, err = leaf.Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	awaitEvent(t, hub, transport.Up)
	awaitEvent(t, agent, transport.Up)
	return h, leaf, hub, agent
}

func awaitEvent(t *testing.T, l transport.Link, e transport.Event) {
	t.Helper()
	await(t, l, func(d transport.Delivery) bool { return d.Event == e })
}

func TestState(t *testing.T) {
	h, leaf, hub, agent := joined(t)
	start := time.Now()
	for i := range 5 {
		require.NoError(t, agent.Send(t.Context(), value(fmt.Sprintf("key-%d", i%3), "text")))
	}
	require.NoError(t, agent.Send(t.Context(), value("last", "text")))
	await(t, hub, isValue("last", "text"))

	of, err := leaf.State(t.Context())
	require.NoError(t, err)
	in, err := h.State(t.Context(), "north")
	require.NoError(t, err)
	for _, s := range []State{of, in} {
		require.True(t, s.Connected)
		require.WithinRange(t, s.UpSince, start.Add(-time.Minute), time.Now())
		require.WithinRange(t, s.LastHeard, s.UpSince, time.Now())
		require.Zero(t, s.Dropped)
	}
	require.Equal(t, "OUT_north", of.Log.Stream)
	require.Equal(t, uint64(6), of.Log.LastSeq)
	require.Equal(t, uint64(4), of.Log.Messages)
	require.Equal(t, int64(DefaultQuota), of.Log.Quota)
	require.Equal(t, "UP_north", in.Copy.Stream)
	require.Equal(t, uint64(4), in.Copy.Messages)
	require.Positive(t, in.Copy.Bytes)
	require.NotEqual(t, of.Log.Epoch, in.Copy.Epoch)
	require.Equal(t, "DOWN_north", in.Log.Stream)
	require.Equal(t, "IN_north", of.Copy.Stream)

	require.NoError(t, agent.Close())
	awaitEvent(t, hub, transport.Down)
	_, err = leaf.State(t.Context())
	require.ErrorIs(t, err, transport.ErrClosed)
	in, err = h.State(t.Context(), "north")
	require.NoError(t, err)
	require.False(t, in.Connected)
	require.Zero(t, in.UpSince)
	require.NotZero(t, in.LastHeard)
	_, err = h.State(t.Context(), "south")
	require.ErrorIs(t, err, transport.ErrClosed)
}

// TestStateAgreesWithGoodbye: a peer that has said that it closes is not connected from the
// Down on, although the hub's server learns only later that nobody listens there any more.
func TestStateAgreesWithGoodbye(t *testing.T) {
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	for range 20 {
		agent := dial(t, leafConfig(t, p, "north", addr(t, h)))
		awaitEvent(t, hub, transport.Up)
		awaitEvent(t, agent, transport.Up)
		in, err := h.State(t.Context(), "north")
		require.NoError(t, err)
		require.True(t, in.Connected)
		closed := make(chan error, 1)
		go func() { closed <- agent.Close() }()
		awaitEvent(t, hub, transport.Down)
		in, err = h.State(t.Context(), "north")
		require.NoError(t, err)
		require.False(t, in.Connected)
		require.Zero(t, in.UpSince)
		require.NoError(t, <-closed)
	}
}

func TestCounts(t *testing.T) {
	h, leaf, hub, agent := joined(t)
	up, err := h.Count(t.Context(), "north")
	require.NoError(t, err)
	defer up.Stop()
	down, err := leaf.Count(t.Context())
	require.NoError(t, err)
	defer down.Stop()

	gone := value("key", "")
	gone.Digest, gone.Event.DataEncoded = "", nil
	gone.Event.SetType("test.gone")
	for _, l := range []transport.Link{hub, agent} {
		require.NoError(t, l.Send(t.Context(), value("key", "text")))
	}
	for _, c := range []*Counts{up, down} {
		require.NoError(t, c.Wait(t.Context(), func(n map[string]int) bool { return n["test.value"] == 1 }))
	}
	require.NoError(t, agent.Send(t.Context(), gone))
	require.NoError(t, up.Wait(t.Context(), func(n map[string]int) bool { return n["test.gone"] == 1 }))
	require.Equal(t, map[string]int{"test.value": 1, "test.gone": 1}, up.ByType())
	require.Equal(t, map[string]int{"test.value": 1}, down.ByType())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, up.Wait(ctx, func(map[string]int) bool { return false }), context.Canceled)
}

func TestMonitoringTellsWhatTheServerHolds(t *testing.T) {
	p := tlstest.NewAuthority(t)
	c := hubConfig(t, p)
	c.MonitorListen = "127.0.0.1:0"
	h, stop := startHub(t, c)
	l, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	require.NoError(t, l.Send(t.Context(), value("key", "text")))
	monitor, err := h.MonitorAddr(t.Context())
	require.NoError(t, err)

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + monitor + "/jsz?streams=true&accounts=true")
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Body.Close()) }()
	var all struct {
		Streams, Consumers, Messages int
	}
	require.NoError(t, json.NewDecoder(r.Body).Decode(&all))
	require.Equal(t, 2, all.Streams)
	require.Equal(t, 1, all.Messages)
	require.Zero(t, all.Consumers)

	stop()
	_, err = h.MonitorAddr(t.Context())
	require.ErrorIs(t, err, transport.ErrClosed)
}

// TestServerOfALeafIsMadeAnew: beneath an open Link, on what it holds.
func TestServerOfALeafIsMadeAnew(t *testing.T) {
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	c := leafConfig(t, p, "north", addr(t, h))
	log, lines := refusals()
	c.Logger = log
	leaf, err := NewLeaf(c)
	require.NoError(t, err)
	agent, err := leaf.Dial(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, agent.Close()) }()
	require.NoError(t, agent.Send(t.Context(), value("before", "text")))
	await(t, hub, isValue("before", "text"))
	first := leaf.open.node.current()
	leaf.open.node.fail("test") // what the server says when it cannot go on
	awaitLine(t, lines, "the NATS server runs again")
	require.NotSame(t, first, leaf.open.node.current())
	require.NoError(t, agent.Send(t.Context(), value("after", "text")))
	await(t, hub, isValue("after", "text"))
	require.NoError(t, hub.Send(t.Context(), value("down", "text")))
	await(t, agent, isValue("down", "text"))
	kept, err := agent.Log(t.Context())
	require.NoError(t, err)
	require.Len(t, kept.Rows, 2)
}

// TestSeveredConnectionIsOpenedAgain: either side closes a connection that carries nothing.
func TestSeveredConnectionIsOpenedAgain(t *testing.T) {
	_, _, hub, agent := joined(t)
	for i, l := range []transport.Link{hub, agent} {
		end := l.(*link)
		end.sever(end.session())
		text := fmt.Sprint(i)
		require.NoError(t, agent.Send(t.Context(), value("key", text)))
		await(t, hub, isValue("key", text))
	}
}

// TestServerThatFailsIsMadeAnew: it ends neither the hub nor its Links, and agents come back.
func TestServerThatFailsIsMadeAnew(t *testing.T) {
	p := tlstest.NewAuthority(t)
	c := hubConfig(t, p)
	log, lines := refusals()
	c.Logger = log
	h, _ := startHub(t, c)
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	agent := dial(t, leafConfig(t, p, "north", addr(t, h)))
	first, address := h.node.current(), addr(t, h)
	serverLogger{h.config.Logger, h.node.fail, h.node.suspect, nobody}.Fatalf("cannot %s", "go on")
	awaitLine(t, lines, "the NATS server runs again")
	require.NotSame(t, first, h.node.current())
	require.Equal(t, address, addr(t, h))
	for _, l := range []transport.Link{hub, agent} {
		require.NoError(t, l.Send(t.Context(), value("key", "text")))
	}
	await(t, hub, isValue("key", "text"))
	await(t, agent, isValue("key", "text"))
	require.Empty(t, h.Troubles())
}

// TestLinksShareTheStore: what many Links subscribe to on the connections that they share
// is not too much for the server.
func TestLinksShareTheStore(t *testing.T) {
	const links = 450
	c := hubConfig(t, tlstest.NewAuthority(t))
	log, lines := refusals()
	c.Logger = log
	h, _ := startHub(t, c)
	for i := range links {
		l, err := h.Link(t.Context(), fmt.Sprintf("agent-%d", i))
		require.NoError(t, err)
		require.NoError(t, l.Send(t.Context(), value("key", "text")))
	}
	l := h.links["agent-0"]
	require.NoError(t, h.store("agent-0").DeleteStream(t.Context(), logOf(l).name))
	awaitEvent(t, l, transport.LogLost)
	for len(lines) > 0 {
		require.NotContains(t, <-lines, "maximum subscriptions")
	}
}
