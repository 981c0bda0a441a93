package natslink

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"

	cejs "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/argocd-fabric/argocd-agent/transport"
)

func TestKeysAndSubjectsAreOneToOne(t *testing.T) {
	for key, tail := range map[string]string{
		"Application/team-a/guestbook": "Application.team-a.guestbook",
		"Application/team-a/a.b":       "Application.team-a.a%2Eb",
		"$manifest":                    "$manifest",
		"a//b":                         "a.%.b",
		"/":                            "%.%",
		"*/> %":                        "%2A.%3E%20%25",
		"ü":                            "ü",
	} {
		require.Equal(t, tail, encodeKey(key))
		back, err := decodeKey(tail)
		require.NoError(t, err)
		require.Equal(t, key, back)
	}
	for _, tail := range []string{"", "a..b", ".", "*", "a.>", "%2e", "%41", "%2", "%zz", "a%", "a b"} {
		_, err := decodeKey(tail)
		require.Errorf(t, err, "%q", tail)
	}
}

func TestAnyKeyIsAGoodSubject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringN(1, 100, maxKey).Draw(t, "key")
		tail := encodeKey(key)
		for _, token := range strings.Split(tail, ".") {
			require.NotEmpty(t, token)
			require.NotContains(t, []string{"*", ">"}, token)
			require.NotContains(t, token, "\x00")
			require.Negative(t, strings.IndexFunc(token, func(r rune) bool { return r < 0x80 && unicode.IsSpace(r) }))
		}
		back, err := decodeKey(tail)
		require.NoError(t, err)
		require.Equal(t, key, back)
	})
}

func TestMessagesSurviveEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 40, -1)
		e := event.New()
		e.SetID(text.Draw(t, "id"))
		e.SetSource("/clusters/" + rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "source"))
		e.SetType(text.Draw(t, "type"))
		e.SetSubject(text.Draw(t, "subject"))
		e.SetTime(time.Unix(0, rapid.Int64Range(1, 1<<61).Draw(t, "time")).UTC())
		e.SetExtension("ext", text.Draw(t, "extension"))
		m := transport.Message{Key: rapid.StringMatching(`[^\x00]{1,50}`).Draw(t, "key"), Event: e}
		if rapid.Bool().Draw(t, "tombstone") {
			m.Event.DataEncoded = nil
		} else {
			m.Digest = text.Draw(t, "digest")
			m.Event.DataEncoded = rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "data")
		}
		if m.Event.Validate() != nil {
			return // it is no CloudEvent
		}
		msg, err := encode("fabric.a.up.", m)
		require.NoError(t, err)
		for _, values := range msg.Header {
			require.NotContains(t, values[0], "\n")
			require.NotContains(t, values[0], "\r")
			require.Equal(t, strings.Trim(values[0], " \t"), values[0], "NATS trims it")
		}
		back, err := decode("fabric.a.up.", msg)
		require.NoError(t, err)
		require.Equal(t, m.Key, back.Key)
		require.Equal(t, m.Digest, back.Digest)
		require.Equal(t, m.Event.Context.AsV1(), back.Event.Context.AsV1())
		require.Equal(t, m.Event.Data(), back.Event.Data())
	})
}

// TestHeadersAreThoseOfTheSDK: what an event says of itself is stored as the CloudEvents SDK would.
func TestHeadersAreThoseOfTheSDK(t *testing.T) {
	bare := event.New()
	bare.SetID("id")
	bare.SetSource("/source")
	bare.SetType("type")
	full := bare.Clone()
	full.SetSubject("subject")
	full.SetTime(time.Unix(1, 20).In(time.FixedZone("east", 3600)))
	full.SetDataSchema("https://example.com/schema")
	full.SetExtension("text", "a b")
	full.SetExtension("flag", true)
	full.SetExtension("number", 7)
	require.NoError(t, full.SetData(event.ApplicationJSON, []byte("{}")))
	for _, e := range []event.Event{bare, full} {
		want, err := cejs.WriteMsg(t.Context(), (*binding.EventMessage)(&e), &bytes.Buffer{})
		require.NoError(t, err)
		require.Equal(t, want, attributes(e))
	}
}

func TestMessagesThatAreRefused(t *testing.T) {
	tombstone := value("key", "text")
	tombstone.Digest = ""
	large := value("key", "text")
	large.Event.DataEncoded = make([]byte, transport.MaxMessage+1)
	wide := value("key", "text")
	wide.Event.SetExtension("wide", strings.Repeat("x", maxHeaders))
	for name, c := range map[string]struct {
		m    transport.Message
		want string
	}{
		"no key":              {value("", "text"), "key"},
		"long key":            {value(strings.Repeat("k", maxKey+1), "text"), "key"},
		"NUL in key":          {value("a\x00b", "text"), "key"},
		"no event":            {transport.Message{Key: "key", Digest: "d", Event: event.New()}, "invalid"},
		"tombstone with data": {tombstone, "tombstone with data"},
		"large data":          {large, transport.ErrTooLarge.Error()},
		"large headers":       {wide, transport.ErrTooLarge.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := encode("fabric.a.up.", c.m)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func FuzzAnswer(f *testing.F) {
	msg, err := encode("fabric.a.up.", value("key", "text"))
	require.NoError(f, err)
	a := answer{Hello: hello{Link: "link"}, Upto: position{"epoch", 9}, rows: []row{
		{seq: 3, tail: "key", header: msg.Header, data: msg.Data},
		{seq: 9, tail: "gone", header: nats.Header{"ce-id": {"x"}}},
	}}
	good, err := a.marshal()
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:len(good)-1])
	s, err := newSqueezer()
	require.NoError(f, err)
	to := ask{Have: position{"epoch", 2}, brief: &brief{}}
	short, err := a.marshalBrief(to, s)
	require.NoError(f, err)
	f.Add(short)
	f.Add(short[:len(short)-1])
	f.Add([]byte{briefAnswer, flagMoved | flagNamed, 2, '{', '}', 0, 9})
	f.Add([]byte("\x02{}"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := unmarshalAnswer(data, to, a.Hello, s)
		if err != nil {
			return
		}
		var last uint64
		for _, r := range a.rows {
			require.Greater(t, r.seq, last)
			require.LessOrEqual(t, r.seq, a.Upto.Seq)
			last = r.seq
		}
		again, err := a.marshal()
		require.NoError(t, err)
		short, err := a.marshalBrief(to, s)
		require.NoError(t, err)
		for _, data := range [][]byte{again, short} {
			b, err := unmarshalAnswer(data, to, a.Hello, s)
			require.NoError(t, err)
			require.Equal(t, a.Upto, b.Upto)
			require.Len(t, b.rows, len(a.rows))
		}
	})
}

func TestAnswersThatAreRefused(t *testing.T) {
	rows := func(seqs ...uint64) []byte {
		a := answer{Hello: hello{Link: "link"}, Upto: position{"epoch", 5}}
		for _, s := range seqs {
			a.rows = append(a.rows, row{seq: s, tail: "key"})
		}
		data, err := a.marshal()
		require.NoError(t, err)
		return data
	}
	_, err := unmarshalAnswer(rows(1, 5), ask{}, hello{}, nil)
	require.NoError(t, err)
	for name, data := range map[string][]byte{
		"empty": {}, "not ascending": rows(2, 2), "beyond its end": rows(6), "cut off": rows(1)[:len(rows(1))-1],
		"nameless": []byte("\x02{}"),
	} {
		_, err := unmarshalAnswer(data, ask{}, hello{}, nil)
		require.Error(t, err, name)
	}
	for name, data := range map[string]string{
		"not JSON": "x", "nameless": "{}", "negative hold": `{"hello":{"link":"l"},"hold":-1}`, "large": strings.Repeat(" ", maxAsk+1),
		"brief, cut off": string(ask{brief: &brief{from: 1}}.marshalBrief()[:29]), "brief, nameless": string(ask{brief: &brief{}}.marshalBrief()), "brief, negative hold": string(ask{Hold: -1, brief: &brief{from: 1}}.marshalBrief()),
	} {
		_, err := unmarshalAsk([]byte(data))
		require.Error(t, err, name)
	}
}

// FuzzDecode hands decode any message that is stored: it refuses it, or gives one that is
// stored as the same again.
func FuzzDecode(f *testing.F) {
	const prefix = "fabric.a.up."
	m, err := encode(prefix, value("Application/ns/a b", "text"))
	require.NoError(f, err)
	f.Add(m.Subject[len(prefix):], m.Header.Get("ce-id"), m.Header.Get("ce-source"), m.Header.Get("ce-time"), "uid", "%41", "digest", m.Data)
	f.Add("%.%2F", "1", "/", "yesterday", "UID", "%", "", []byte(nil))
	f.Fuzz(func(t *testing.T, tail, id, source, time, name, text, digest string, data []byte) {
		h := nats.Header{
			"ce-specversion": {"1.0"}, "ce-type": {"test"}, "ce-id": {id}, "ce-source": {source}, "ce-time": {time},
			"ce-" + name: {text}, "Content-Type": {"application/json"}, digestHeader: {digest},
		}
		got, err := decode(prefix, &nats.Msg{Subject: prefix + tail, Header: h, Data: data})
		if err != nil {
			return
		}
		require.Equal(t, tail, encodeKey(got.Key))
		again, err := encode(prefix, got)
		if err != nil {
			return // what is stored need not be what we would store
		}
		back, err := decode(prefix, again)
		require.NoError(t, err)
		require.Equal(t, got, back)
	})
}

// FuzzParcel hands any bytes to the end of a pipe.
func FuzzParcel(f *testing.F) {
	p := parcel{from: tip{1, 2}, to: tip{3, 4}, number: 5, packet: []byte("packet")}
	f.Add(append(p.append(nil), p.packet...))
	f.Add(p.append(nil)[1:])
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := unmarshalParcel(b)
		if err != nil {
			return
		}
		require.Equal(t, b, append(p.append(nil), p.packet...))
	})
}
