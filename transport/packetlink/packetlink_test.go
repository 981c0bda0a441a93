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
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	d, err := e.Receive(ctx)
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

// start is when the tests begin; their clocks are their own.
var start = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)

// carry carries what one connection has for the other, and returns the sizes of the packets.
func carry(t *testing.T, from, to *Connection, now time.Time) (sizes []int) {
	t.Helper()
	for {
		p := from.Next(nil, now)
		if len(p) == 0 {
			return sizes
		}
		sizes = append(sizes, len(p))
		require.NoError(t, to.Take(p, now))
	}
}

// converse carries all that two connections have for each other now, and returns how many
// bytes that was.
func converse(t *testing.T, a, b *Connection, now time.Time) (bytes int) {
	t.Helper()
	for {
		sizes := append(carry(t, a, b, now), carry(t, b, a, now)...)
		if len(sizes) == 0 {
			return bytes
		}
		for _, n := range sizes {
			bytes += n
		}
	}
}

// join begins a connection between two Ends, and has them converse.
func join(t *testing.T, a, b *End, now time.Time) (of, other *Connection, bytes int) {
	t.Helper()
	of, other = a.Begin(transport.Presence{Process: "b"}), b.Begin(transport.Presence{Process: "a"})
	return of, other, converse(t, of, other, now)
}

// send sends some messages.
func send(t *testing.T, e *End, all ...transport.Message) {
	t.Helper()
	for _, m := range all {
		require.NoError(t, e.Send(t.Context(), m))
	}
}

// table returns n messages.
func table(n int) (all []transport.Message) {
	for i := range n {
		all = append(all, message(fmt.Sprintf("key-%d", i), fmt.Sprintf("%d", i)))
	}
	return all
}

// none expects that nothing more is received.
func none(t *testing.T, e *End) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel) // what has come is given first
	d, err := e.Receive(ctx)
	require.ErrorIs(t, err, context.Canceled, "%v", d.Message.Key)
}

// pair returns two Ends that have been replayed.
func pair(t *testing.T) (hub, agent *End) {
	hub, agent = open(t, "principal", "edge", nil), open(t, "edge", "principal", nil)
	expect(t, hub, transport.Replayed)
	expect(t, agent, transport.Replayed)
	return hub, agent
}

func TestOnlyWhatDiffersCrosses(t *testing.T) {
	hub, agent := pair(t)
	send(t, hub, message("a", `"1"`), message("a", `{"b": 2}`), message("gone", ""))
	down, up, _ := join(t, hub, agent, start)
	require.Equal(t, "a", receive(t, agent).Presence.Process)
	require.Equal(t, map[string]transport.Message{"a": message("a", `{"b": 2}`), "gone": message("gone", "")}, values(t, agent, 2))
	require.Empty(t, down.Next(nil, start))

	agent.End(up, "cut")
	hub.End(down, "cut")
	hub.End(down, "it is over already")
	expect(t, agent, transport.Down)
	send(t, hub, message("b", "3"), message("gone", ""))
	require.Empty(t, down.Table.Next(nil, start), "it is over")
	require.NoError(t, up.Take([]byte("tnonsense"), start), "so is this one")
	join(t, hub, agent, start)
	expect(t, agent, transport.Up)
	require.Equal(t, map[string]transport.Message{"b": message("b", "3"), "gone": message("gone", "")}, values(t, agent, 2))
	none(t, agent)

	log, err := hub.Log(t.Context())
	require.NoError(t, err)
	require.False(t, log.Keeps)
	require.Empty(t, log.Rows)
}

// TestAnUnchangedTableIsComparedInFewBytes: both ways together, whatever its size.
func TestAnUnchangedTableIsComparedInFewBytes(t *testing.T) {
	hub, agent := pair(t)
	send(t, hub, table(1000)...)
	send(t, agent, table(1000)...)
	down, up, _ := join(t, hub, agent, start)
	expect(t, agent, transport.Up)
	values(t, agent, 1000)
	agent.End(up, "cut")
	hub.End(down, "cut")
	expect(t, agent, transport.Down)
	_, _, bytes := join(t, hub, agent, start)
	require.Less(t, bytes, 500)
	expect(t, agent, transport.Up)
	none(t, agent)
}

// TestALogThatIsPublishedAnewIsNotSentAgain: as after a restart of the principal, whose log is
// another, and is filled while the agent is connected.
func TestALogThatIsPublishedAnewIsNotSentAgain(t *testing.T) {
	changed := table(1000)
	changed[7] = message("key-7", "another")
	for name, c := range map[string]struct{ all, crosses []transport.Message }{
		"the same":      {table(1000), nil},
		"with a change": {changed, changed[7:8]},
		"with one more": {append([]transport.Message{message("new", "1")}, table(1000)...), []transport.Message{message("new", "1")}},
		"with one less": {table(999), nil},
	} {
		t.Run(name, func(t *testing.T) {
			hub, agent := pair(t)
			send(t, hub, table(1000)...)
			join(t, hub, agent, start)
			expect(t, agent, transport.Up)
			values(t, agent, 1000)

			next := open(t, "principal", "edge", nil)
			down, up, bytes := join(t, next, agent, start)
			expect(t, agent, transport.Down, transport.Up)
			now := start
			for i, m := range c.all {
				now = start.Add(time.Duration(i) * time.Millisecond)
				send(t, next, m)
				bytes += converse(t, down, up, now)
			}
			require.Less(t, bytes, 500)
			due := down.Table.Due(now)
			if name == "the same" {
				require.Zero(t, due, "they are equal")
			} else {
				require.Equal(t, now.Add(settled), due)
				require.Less(t, converse(t, down, up, due), 2000)
			}
			for _, m := range c.crosses {
				require.Equal(t, m, receive(t, agent).Message)
			}
			none(t, agent)
			send(t, next, message("key-8", "later"))
			converse(t, down, up, due)
			require.Equal(t, message("key-8", "later"), receive(t, agent).Message)
		})
	}
}

// TestALogThatIsNeverFilledIsSentInTheEnd: one that is put into all the time is waited for
// only so long.
func TestALogThatIsNeverFilledIsSentInTheEnd(t *testing.T) {
	hub, agent := pair(t)
	send(t, hub, table(10)...)
	join(t, hub, agent, start)
	expect(t, agent, transport.Up)
	values(t, agent, 10)
	next := open(t, "principal", "edge", nil)
	down, up, _ := join(t, next, agent, start)
	expect(t, agent, transport.Down, transport.Up)
	for now := start; now.Before(start.Add(waited)); now = now.Add(settled / 2) {
		send(t, next, message("busy", now.String()))
		converse(t, down, up, now)
	}
	none(t, agent)
	converse(t, down, up, start.Add(waited))
	require.Equal(t, "busy", receive(t, agent).Message.Key)
	send(t, next, table(10)...)
	send(t, next, message("key-3", "another"))
	converse(t, down, up, start.Add(waited))
	require.Equal(t, message("key-3", "another"), receive(t, agent).Message, "the others are there")
	send(t, next, message("key-3", "3"))
	converse(t, down, up, start.Add(waited))
	require.Equal(t, message("key-3", "3"), receive(t, agent).Message, "it was, and is not any more")
	none(t, agent)
}

// TestOneValueOfAKeyIsUnderWay: the next goes once it is acknowledged, and those between are
// left out.
func TestOneValueOfAKeyIsUnderWay(t *testing.T) {
	hub, agent := pair(t)
	down, up, _ := join(t, hub, agent, start)
	send(t, hub, message("a", "1"), message("b", "1"))
	first := down.Table.Next(nil, start)
	for i := 2; i <= 5; i++ {
		send(t, hub, message("a", fmt.Sprint(i)))
	}
	require.Empty(t, down.Table.Next(nil, start))
	require.NoError(t, up.Table.Take(first, start))
	taken := up.Table.Next(nil, start)
	require.Equal(t, []byte{frameTaken, 2}, taken)
	require.NoError(t, down.Table.Take(taken, start))
	require.NoError(t, up.Table.Take(down.Table.Next(nil, start), start))
	expect(t, agent, transport.Up)
	require.Equal(t, map[string]transport.Message{"a": message("a", "5"), "b": message("b", "1")}, values(t, agent, 2))
	none(t, agent)
}

// TestWhatIsSentDuringAComparisonArrives: at whatever point of it, and in whatever bucket.
func TestWhatIsSentDuringAComparisonArrives(t *testing.T) {
	hub, agent := pair(t)
	send(t, hub, table(1000)...)
	down, up, _ := join(t, hub, agent, start)
	expect(t, agent, transport.Up)
	values(t, agent, 1000)
	agent.End(up, "cut")
	hub.End(down, "cut")
	send(t, hub, message("key-1", "another"))
	down, up = hub.Begin(transport.Presence{}), agent.Begin(transport.Presence{})
	want := map[string]transport.Message{"key-1": message("key-1", "another")}
	stages := map[stage]bool{}
	for step := range 12 {
		m := message(fmt.Sprint("step-", step), "1")
		want[m.Key] = m
		send(t, hub, m)
		stages[hub.log.stage] = true
		from, to := up, down
		if step%2 == 1 {
			from, to = down, up
		}
		if p := from.Next(nil, start); len(p) > 0 {
			require.NoError(t, to.Take(p, start))
		}
	}
	for _, s := range []stage{unheard, summing, listing, choosing, marking, known} {
		require.True(t, stages[s], "nothing was sent in stage %d", s)
	}
	converse(t, down, up, start)
	expect(t, agent, transport.Down, transport.Up)
	require.Equal(t, want, values(t, agent, len(want)))
	none(t, agent)
}

// TestTheNextValueCrossesAsAChange: of the one before, over each connection.
func TestTheNextValueCrossesAsAChange(t *testing.T) {
	hub, agent := pair(t)
	down, up, _ := join(t, hub, agent, start)
	expect(t, agent, transport.Up)
	change := func(health string) int {
		m := message("a", status(20, health))
		send(t, hub, m)
		bytes := converse(t, down, up, start)
		require.Equal(t, m, receive(t, agent).Message)
		return bytes
	}
	require.Greater(t, change("Progressing"), 2000)
	require.Less(t, change("Healthy"), 200)
	require.Less(t, change("Degraded"), 200)
	down, up, _ = join(t, hub, agent, start)
	expect(t, agent, transport.Down, transport.Up)
	require.Greater(t, change("Healthy"), 2000)
	require.Less(t, change("Progressing"), 200)
}

// TestAcknowledgementsGoFirst: before all that waits to be sent.
func TestAcknowledgementsGoFirst(t *testing.T) {
	hub, agent := pair(t)
	down, up, _ := join(t, hub, agent, start)
	send(t, agent, table(1000)...)
	send(t, hub, message("a", "1"))
	require.NoError(t, up.Table.Take(down.Table.Next(nil, start), start))
	require.Equal(t, []byte{frameTaken, 1}, up.Table.Next(nil, start)[:2])
}

// TestTombstonesAreForgotten: once the peer has them and they are old.
func TestTombstonesAreForgotten(t *testing.T) {
	hub, agent := pair(t)
	down, up, _ := join(t, hub, agent, start)
	send(t, hub, message("a", ""), message("b", ""))
	converse(t, down, up, start)
	require.Len(t, hub.log.rows, 2)
	send(t, hub, message("b", "2"))
	converse(t, down, up, start.Add(TombstoneAge+time.Second))
	require.Len(t, hub.log.rows, 1)
	require.Contains(t, hub.log.rows, "b")
}

// A shelf is a Copy in memory.
type shelf map[string]Record

func (s shelf) Read(f func(Record) error) error {
	for _, r := range s {
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}
func (s shelf) Put(r Record) { s[r.Key] = r }
func (s shelf) Close() error { return nil }

func TestACopyIsGivenToTheNext(t *testing.T) {
	kept := shelf{}
	agent, err := Open(Config{Local: "edge", Peer: "principal", Copy: kept})
	require.NoError(t, err)
	hub := open(t, "principal", "edge", nil)
	send(t, hub, message("a", "1"), message("b", "1"), message("$c", "1"), message("b", ""))
	join(t, hub, agent, start)
	require.NoError(t, agent.Close())
	require.True(t, kept["b"].Tombstone)

	agent, err = Open(Config{Local: "edge", Peer: "principal", Copy: kept})
	require.NoError(t, err)
	want := map[string]transport.Message{"a": message("a", "1"), "b": message("b", ""), "$c": message("$c", "1")}
	require.Equal(t, want, values(t, agent, 3))
	expect(t, agent, transport.Replayed)
	delete(kept, "a") // as if it had not been written in time
	require.NoError(t, agent.Close())

	agent, err = Open(Config{Local: "edge", Peer: "principal", Copy: kept})
	require.NoError(t, err)
	values(t, agent, 2)
	expect(t, agent, transport.Replayed)
	join(t, hub, agent, start)
	expect(t, agent, transport.Up)
	require.Equal(t, message("a", "1"), values(t, agent, 3)["a"])
	require.NoError(t, agent.Close())

	kept["a"] = Record{Key: "a", Text: []byte("nonsense")}
	_, err = Open(Config{Local: "edge", Peer: "principal", Copy: kept})
	require.ErrorIs(t, err, transport.ErrStore)
}

// TestALogIsBounded: beyond its bounds it refuses, and the peer's is refused.
func TestALogIsBounded(t *testing.T) {
	hub, agent := pair(t)
	data := strings.Repeat("x", transport.MaxMessage)
	send(t, hub, message("0", data))
	hub.log.bytes = DefaultBytes
	require.ErrorIs(t, hub.Send(t.Context(), message("1", "more")), transport.ErrFull)
	require.ErrorIs(t, hub.Send(t.Context(), message("0", data+"x")), transport.ErrTooLarge)
	require.NoError(t, hub.Send(t.Context(), message("0", "smaller")))
	for _, key := range []string{"", strings.Repeat("k", 1025), "a\x00b"} {
		require.Error(t, hub.Send(t.Context(), message(key, "1")), "%.20q", key)
	}
	up := agent.Begin(transport.Presence{})
	agent.reading.bytes = 2 * DefaultBytes
	packet, err := appendMessage([]byte{frameMessage}, message("a", "1"))
	require.NoError(t, err)
	require.ErrorContains(t, up.Table.Take(packet, start), "too large")
}

func TestPacketsAreShortAndTakeTurns(t *testing.T) {
	hub, agent := open(t, "principal", "edge", nil), open(t, "edge", "principal", nil)
	down, up, _ := join(t, hub, agent, start)
	c, err := hub.Streams().Open(t.Context(), "bulk")
	require.NoError(t, err)
	defer c.Close()
	for _, key := range []string{"a", "b", "c", "d"} {
		require.NoError(t, hub.Send(t.Context(), message(key, strings.Repeat("x", mux.MaxPacket))))
	}
	first, second := down.Next(nil, start), down.Next(nil, start)
	require.ElementsMatch(t, []byte{ofTable, ofStreams}, []byte{first[0], second[0]})
	for _, p := range [][]byte{first, second} {
		require.NoError(t, up.Take(p, start))
	}
	for _, size := range carry(t, down, up, start) {
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

// connection returns one whose other side is played by the test, and which has something to
// send.
func connection(t testing.TB, log ...transport.Message) *Connection {
	e, err := Open(Config{Local: "edge", Peer: "principal"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	for _, m := range log {
		require.NoError(t, e.Send(t.Context(), m))
	}
	return e.Begin(transport.Presence{})
}

func TestPacketsAgainstTheRulesAreRefused(t *testing.T) {
	account := account{log: "log", of: "of", salt: "salt", count: 1, sum: 2}.append([]byte{ofTable, frameAccount})
	good, err := appendMessage([]byte{ofTable, frameMessage}, message("a", "1"))
	require.NoError(t, err)
	for _, whole := range [][]byte{account, good} {
		for n := 2; n < len(whole); n++ {
			require.Error(t, connection(t).Take(whole[:n:n], start), "it is cut off at %d", n)
		}
		require.NoError(t, connection(t).Take(whole, start))
	}
	empty, err := appendMessage([]byte{ofTable, frameMessage}, message("", "1"))
	require.NoError(t, err)
	for _, packet := range []string{
		"", "x", "s\xff", "tx", "tm\x01a\x00\x01{\x00", "tm\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"t??", "td\x01a\x00", "td\x01a", "td\x05a", "t#\x00", "t#12345678#12345678", "ta\x01", "tM\x00", "tS" + strings.Repeat("12345678", buckets), string(empty),
		string(account) + string(account[1:]),
	} {
		require.Error(t, connection(t).Take([]byte(packet), start), "%q", packet)
	}
	require.Error(t, func() error { _, err := appendMessage(nil, transport.Message{Key: "no event"}); return err }())
}

// FuzzTake has a peer say anything, at any stage.
func FuzzTake(f *testing.F) {
	m := message("a", "1")
	one, err := appendMessage([]byte{ofTable, frameMessage}, m)
	require.NoError(f, err)
	filled := account{log: "log", salt: "salt", count: 2}.append([]byte{ofTable, frameAccount})
	f.Add(one, filled, []byte("tS"+strings.Repeat("12345678", buckets)), appendMarks([]byte("tM"), []mark{{1, 2}}))
	f.Add([]byte("t?#12345678"), account{}.append([]byte{ofTable, frameAccount}), []byte("ta\x01"), []byte("s"))
	f.Fuzz(func(t *testing.T, p1, p2, p3, p4 []byte) {
		c := connection(t, m)
		for _, packet := range [][]byte{p1, p2, p3, p4} {
			if c.Take(packet, start) != nil {
				return
			}
			for c.Next(nil, start.Add(time.Hour)) != nil {
				continue
			}
		}
	})
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
