package linktest

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/transport"
)

var deliveries = []test{
	{name: "BothWays", run: bothWays},
	{name: "WholeEvents", run: wholeEvents},
	{name: "AnyKey", run: anyKey},
	{name: "LastValueWins", run: lastValueWins},
	{name: "OrderUnderLoad", run: orderUnderLoad},
	{name: "FirstContact/AgentLater", run: agentLater},
	{name: "FirstContact/HubLater", run: hubLater},
	{name: "LargestMessage", run: largestMessage},
	{name: "TooLarge", run: tooLarge},
}

func bothWays(w *world) {
	h, a := w.pair("alpha")
	require.Equal(w, "alpha", h.link.Peer())
	require.Equal(w, "principal", a.link.Peer())
	down, up := table{}, table{}
	h.send(down, keys("key", 20)...)
	a.send(up, keys("key", 20)...)
	a.awaitTable(down)
	h.awaitTable(up)
	h.drop(down, keys("key", 10)...)
	a.drop(up, keys("key", 10)...)
	a.awaitTable(down)
	h.awaitTable(up)
}

// wholeEvents sends events with everything that a Link keeps.
func wholeEvents(w *world) {
	full := message("full", w.next())
	full.Event.SetID("an id/with ünusual characters %41 \"quoted\"")
	full.Event.SetSource("https://example.com/clusters?name=ümlaut#1")
	full.Event.SetSubject("team-a/guestbook 100% ☃")
	full.Event.SetTime(time.Date(2026, 2, 28, 23, 59, 59, 123456789, time.UTC))
	full.Event.SetExtension("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	full.Event.SetExtension("text", "with spaces, commas; ☃ and %25")
	full.Event.DataEncoded = []byte("{ \"b\": 1.0,\n\t\"a\": \"\\u2603 ☃\" }\n")

	binary := message("binary", w.next())
	binary.Event.SetDataContentType("application/octet-stream")
	binary.Event.DataEncoded = bytes.Repeat([]byte{0, '\r', '\n', 0xff, 0xfe}, 100)

	bare := message("bare", w.next())
	bare.Event.SetDataContentType("")
	bare.Event.DataEncoded = nil

	gone := tombstone("gone", w.next())
	gone.Event.SetSubject("team-a/gone")
	gone.Event.SetExtension("uid", "2c3f9d5e-6a7b-4c8d-9e0f-1a2b3c4d5e6f")

	h, a := w.pair("alpha")
	down, up := table{}, table{}
	for _, m := range []transport.Message{full, binary, bare, gone} {
		h.put(down, m)
		a.put(up, m)
	}
	for _, e := range []*end{h, a} {
		e.await("the tombstone", func(s *Seen) bool { return s.Values["gone"].At > 0 })
	}
	a.awaitTable(down)
	h.awaitTable(up)
}

// anyKey sends keys that a transport might confuse.
func anyKey(w *world) {
	long := strings.Repeat("k", 1023)
	all := []string{
		"a", "A", "a.b", "a..b", ".", "a.", ".a", "*", "a.*", "a*", ">", "a.>", "$", "$a", "$a.b", "-", "_",
		"a b", " a", "a ", "a\tb", "a\nb", "a\r\nb", "a/b", "a//b", "/", "a%2Fb", "%", "+", "=", "a=", "\\", "'\"`",
		"ä", "a\u0308", "☃", "\u200b", "🎈", long + "1", long + "2", strings.Repeat("☃", 341), strings.Repeat(".", 1024),
	}
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	h.send(down, all...)
	a.send(up, all...)
	a.awaitTable(down)
	h.awaitTable(up)
	h.drop(down, all[:10]...)
	a.drop(up, all[:10]...)
	a.awaitTable(down)
	h.awaitTable(up)
}

func lastValueWins(w *world) {
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	for range 100 {
		h.send(down, "x", "y")
		a.send(up, "x", "y")
	}
	a.awaitTable(down)
	h.awaitTable(up)
	for range 10 {
		h.drop(down, "x")
		h.send(down, "x")
		a.send(up, "x")
		a.drop(up, "x")
	}
	a.awaitTable(down)
	h.awaitTable(up)
}

// orderUnderLoad has many goroutines send in both directions, each with keys of its own.
// The Reader judges the order.
func orderUnderLoad(w *world) {
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	g, ctx := errgroup.WithContext(w.ctx)
	for i := range 4 {
		own := keys(string(rune('p'+i)), 16)
		h.write(ctx, g, down, own, 1600)
		a.write(ctx, g, up, own, 1600)
	}
	require.NoError(w, g.Wait())
	a.awaitTable(down)
	h.awaitTable(up)
}

// write has g send n values of the keys, in turn, and notes the last ones in t.
func (e *end) write(ctx context.Context, g *errgroup.Group, t table, keys []string, n int) {
	all := make([]transport.Message, n)
	for i := range all {
		all[i] = message(keys[i%len(keys)], e.w.next())
		t[all[i].Key] = all[i]
	}
	g.Go(func() error { return sendAll(ctx, e.link, all) })
}

func sendAll(ctx context.Context, l transport.Link, all []transport.Message) error {
	for _, m := range all {
		if err := l.Send(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// agentLater: what the principal sends to a registered agent that has never been there is
// delivered when it first comes.
func agentLater(w *world) {
	w.startHub()
	h := w.openHub("alpha")
	h.awaitReplayed()
	down, up := table{}, table{}
	h.send(down, keys("key", 50)...)
	h.send(down, keys("key", 10)...)
	a := w.openAgent("alpha")
	a.send(up, "answer")
	a.awaitTable(down)
	h.awaitTable(up)
}

// hubLater: what an agent sends before it has ever reached the principal is delivered when
// it does.
func hubLater(w *world) {
	a := w.openAgent("alpha")
	a.awaitReplayed()
	down, up := table{}, table{}
	a.send(up, keys("key", 50)...)
	a.send(up, keys("key", 10)...)
	w.startHub()
	h := w.openHub("alpha")
	h.send(down, "answer")
	h.awaitTable(up)
	a.awaitTable(down)
}

// sized returns a message with n bytes of data.
func (w *world) sized(key string, n int) transport.Message {
	m := message(key, w.next())
	m.Event.SetDataContentType(event.TextPlain)
	line := []byte(key + ": one of the lines of a text that is long\n")
	m.Event.DataEncoded = bytes.Repeat(line, n/len(line)+1)[:n]
	return m
}

func largestMessage(w *world) {
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	for _, k := range keys("large", 3) {
		h.put(down, w.sized(k, transport.MaxMessage))
		a.put(up, w.sized(k, transport.MaxMessage))
	}
	h.send(down, "small")
	a.send(up, "small")
	a.awaitTable(down)
	h.awaitTable(up)
}

// tooLarge: a message above the limit is refused at once, and disturbs nothing.
func tooLarge(w *world) {
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	for e, t := range map[*end]table{h: down, a: up} {
		e.awaitUp()
		e.send(t, "key", "other")
		err := e.link.Send(w.ctx, w.sized("key", transport.MaxMessage+1))
		require.ErrorIs(w, err, transport.ErrTooLarge)
		e.send(t, "other")
	}
	a.awaitTable(down)
	h.awaitTable(up)
	for _, e := range []*end{h, a} {
		e.Look(func(s *Seen) { require.Equal(w, 1, s.Ups, "the connection was given up") })
	}
}
