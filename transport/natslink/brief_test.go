package natslink

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
)

func squeezerOf(t testing.TB) *squeezer {
	s, err := newSqueezer()
	require.NoError(t, err)
	return s
}

func TestBriefAsksAreRead(t *testing.T) {
	a := ask{Have: position{"log", 1 << 40}, Hold: 56000, Again: true, brief: &brief{from: markOf("one"), knows: markOf("two"), log: markOf("log"), number: 300, holds: 7}}
	data, err := a.marshal()
	require.NoError(t, err)
	got, err := unmarshalAsk(append(data, "what a later version adds"...))
	require.NoError(t, err)
	a.Have.Epoch = "" // which whoever has the log knows
	require.Equal(t, a, got)
}

func TestBriefAnswersAreRead(t *testing.T) {
	s := squeezerOf(t)
	me := hello{Link: "me", Process: "p", Version: "v", Oldest: 1, Newest: 2, Reads: readsBrief}
	to := ask{Have: position{"log", 5}, brief: &brief{}}
	small := []row{{seq: 6, tail: "key", header: nats.Header{}, data: []byte("text")}}
	large := []row{{seq: 6, tail: "key", header: nats.Header{"ce-id": {"x"}}, data: []byte(strings.Repeat("Healthy", 100))}}
	for name, c := range map[string]struct {
		answer
		most int // bytes
	}{
		"nothing":     {answer{Hello: me, Upto: to.Have}, 2},
		"goodbye":     {answer{Hello: me, Upto: to.Have, Bye: true}, 2},
		"a row":       {answer{Hello: me, Upto: position{"log", 6}, rows: small}, 18},
		"a large row": {answer{Hello: me, Upto: position{"log", 6}, rows: large}, 80},
		"another log": {answer{Hello: me, Upto: position{"next", 6}, rows: small}, 22},
		"and by whom": {answer{Hello: me, Upto: position{"log", 6}, rows: small, named: true}, 100},
	} {
		data, err := c.answers(to, s)
		require.NoError(t, err)
		require.LessOrEqual(t, len(data), c.most, name)
		got, err := unmarshalAnswer(data, to, me, s)
		require.NoError(t, err)
		require.Equal(t, c.answer, got, name)
	}
}

// TestAnswersToOtherVersions: who does not say that it reads what is brief gets none.
func TestAnswersToOtherVersions(t *testing.T) {
	s := squeezerOf(t)
	a := answer{Hello: hello{Link: "me"}, Upto: position{"log", 6}}
	to := ask{Hello: hello{Link: "old"}}
	data, err := a.answers(to, s)
	require.NoError(t, err)
	plain, err := a.marshal()
	require.NoError(t, err)
	require.Equal(t, plain, data)
	to.Hello.Reads = readsBrief
	data, err = a.answers(to, s)
	require.NoError(t, err)
	require.Equal(t, byte(briefAnswer), data[0])
}

func TestBriefAnswersThatAreRefused(t *testing.T) {
	s := squeezerOf(t)
	bomb, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(vocabularyID, vocabulary()))
	require.NoError(t, err)
	known := hello{Link: "me"}
	for want, data := range map[string][]byte{
		"cut off":              {briefAnswer, flagMoved, 3, 'l'},
		"nameless":             {briefAnswer, flagNamed, 2, '{', '}'},
		"invalid character":    {briefAnswer, flagNamed, 1, '{' + 1},
		"head of":              appendText([]byte{briefAnswer, flagNamed}, strings.Repeat(" ", maxAsk+1)),
		"magic number":         []byte("\x00\x10rows"),
		"decompressed size":    append([]byte{briefAnswer, flagSqueezed}, bomb.EncodeAll(make([]byte, maxSqueezed+1), nil)...),
		"row 9 after 0 and up": append([]byte{briefAnswer, flagMoved, 0, 8}, appendRow(nil, row{seq: 9})...),
	} {
		_, err := unmarshalAnswer(data, ask{}, known, s)
		require.ErrorContains(t, err, want)
	}
	_, err = unmarshalAnswer([]byte{briefAnswer, 0}, ask{}, hello{}, s)
	require.ErrorContains(t, err, "nameless", "nobody is known")
}

// TestVocabulary: ends that have another cannot read each other. Who changes it changes what hello.Reads
// says, and keeps this one for those that say 1.
func TestVocabulary(t *testing.T) {
	sum := sha256.Sum256(vocabulary())
	require.Equal(t, "f79bee43c7b589056f081a2e78ec8b57c32fa6d154aa8dcb897381a9ecd2441c", hex.EncodeToString(sum[:]))
}

// TestWhoAsksByAMarkThatIsUnknownIsToldWho: it gives its name then, and is served.
func TestWhoAsksByAMarkThatIsUnknownIsToldWho(t *testing.T) {
	_, _, hub, agent := joined(t)
	l, south := hub.(*link), agent.(*link)
	require.NoError(t, hub.Send(t.Context(), value("key", "text")))
	await(t, agent, isValue("key", "text"))
	q := ask{Have: position{Seq: 1}, Hold: 1000, brief: &brief{from: markOf("a rival"), knows: markOf(l.hello.Link), log: markOf("?")}}
	data, err := q.marshal()
	require.NoError(t, err)
	m, err := south.wire.request(t.Context(), south.asks, data, time.Minute, nil)
	require.NoError(t, err)
	a, err := unmarshalAnswer(m.Data, q, hello{}, south.squeeze)
	require.NoError(t, err)
	require.Equal(t, l.hello, a.Hello)
	require.Equal(t, q.Have, a.Upto)
	require.Empty(t, a.rows)
	require.NoError(t, hub.Send(t.Context(), value("key", "next")))
	await(t, agent, isValue("key", "next"))
}

// TestVoucher follows asks of one side.
func TestVoucher(t *testing.T) {
	const beat = 8 * time.Second
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	of := func(n uint64, hold time.Duration) ask {
		return ask{Hold: hold.Milliseconds(), brief: &brief{number: n}}
	}
	var v voucher
	v.asks(of(1, beat), beat, at(0))
	require.Equal(t, beat, v.hold(beat, 7*beat))
	require.False(t, v.doubted(beat, at(100)), "it is answered with the heartbeat")
	require.False(t, v.vouch(0, at(1)))
	require.True(t, v.vouch(1, at(2)))
	require.Equal(t, 7*beat, v.hold(beat, 7*beat))
	v.asks(ask{}, beat, time.Time{})
	require.False(t, v.vouch(1, at(3)), "it was answered")
	require.False(t, v.doubted(beat, at(100)), "nothing is asked")

	v.asks(of(2, 7*beat), beat, at(10))
	require.False(t, v.doubted(beat, at(20)))
	require.True(t, v.vouch(2, at(20)))
	require.False(t, v.vouch(1, at(29)), "it was about another")
	require.False(t, v.doubted(beat, at(30)))
	require.True(t, v.doubted(beat, at(31)), "the peer has said nothing of it")
	require.False(t, v.doubted(beat, at(32)), "once")
	require.Equal(t, beat/4, v.hold(beat, 7*beat))
	require.Equal(t, beat, v.hold(beat, 7*beat))
	v.asks(of(3, beat), beat, at(33))
	require.True(t, v.vouch(3, at(34)))
	require.Equal(t, 7*beat, v.hold(beat, 7*beat))
}

// TestAnAgentThatDoesNotReadIsThere: while its own asks wait for whoever reads it answers ours, which
// are as frequent then as heartbeats.
func TestAnAgentThatDoesNotReadIsThere(t *testing.T) {
	t.Parallel()
	_, _, hub, agent := joined(t)
	l := hub.(*link)
	heard := make(chan ask, 1000)
	_, err := agent.(*link).wire.Subscribe(l.asks, func(m *nats.Msg) {
		if a, err := unmarshalAsk(m.Data); err == nil {
			heard <- a
		}
	})
	require.NoError(t, err)
	trusting := func(a ask) bool { return a.Hold == l.trust.Milliseconds() }
	for !trusting(<-heard) { // the agent asks, and vouches
	}
	for i := range mailboxValues + 2 { // more than wait for a reader
		require.NoError(t, hub.Send(t.Context(), value(fmt.Sprint(i), "text")))
	}
	for n := 0; n < 4; {
		if a := <-heard; !trusting(a) {
			n++
		}
	}
	require.NoError(t, agent.Send(t.Context(), value("still", "here")))
	d, err := hub.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, transport.Value, d.Event)
	require.True(t, isValue("still", "here")(d))
}

// BenchmarkSqueeze tells what an answer with one status costs whoever says it, and whoever hears it.
func BenchmarkSqueeze(b *testing.B) {
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, `{"group":"apps","health":{"status":"Healthy"},"kind":"Deployment","name":"web-%02d","namespace":"guestbook","status":"Synced","version":"v1"},`, i)
	}
	m, err := encode("fabric.a.up.", value("Application/argocd/app", text.String()))
	require.NoError(b, err)
	s := squeezerOf(b)
	rows := appendRow(nil, row{seq: 1, tail: "Application.argocd.app", header: m.Header, data: m.Data})
	small, _ := s.squeeze(rows)
	b.Run("say", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.squeeze(rows)
		}
		b.ReportMetric(float64(len(rows)), "bytes")
		b.ReportMetric(float64(len(small)), "squeezed")
	})
	b.Run("hear", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.open(small); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("begin", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			squeezerOf(b)
		}
	})
}
