package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

func TestWhatIsEncodedIsDecodedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := aMessage().Draw(t, "message")
		e, err := wire.Encode(m, envelope)
		require.NoError(t, err)
		require.NoError(t, e.Event.Validate())
		require.Equal(t, string(m.Body.Digest()), e.Digest)
		require.Equal(t, m.Body.Digest() == "", e.Tombstone())
		require.Equal(t, e.Tombstone(), len(e.Event.Data()) == 0)
		got, err := wire.Decode(e, reader)
		require.NoError(t, err)
		require.Equal(t, m, got)
	})
}

func TestAnEventSaysWhoWhenAndWhy(t *testing.T) {
	e := encode(t, "state")
	require.Equal(t, envelope.ID, e.Event.ID())
	require.Equal(t, "argocd-agent://"+envelope.Source, e.Event.Source())
	require.Equal(t, e.Key, e.Event.Subject())
	require.True(t, envelope.Time.Equal(e.Event.Time()))
	require.Equal(t, envelope.Traceparent, e.Event.Extensions()["traceparent"])
	require.Equal(t, envelope.Tracestate, e.Event.Extensions()["tracestate"])

	untraced := envelope
	untraced.Traceparent, untraced.Tracestate = "", ""
	e, err := wire.Encode(examples["state"], untraced)
	require.NoError(t, err)
	require.NotContains(t, e.Event.Extensions(), "traceparent")
	require.NotContains(t, e.Event.Extensions(), "tracestate")
}

func TestWhatCannotBeWrittenExactlyIsNotWritten(t *testing.T) {
	key := resource.Key{Kind: resource.Application, Namespace: "ns", Name: "a"}
	spec := func(text string) engine.Body { return engine.Record{Parts: resource.Parts{resource.Spec: text}} }
	for name, m := range map[string]engine.Message{
		"a part that is no JSON":          {Key: key, Body: spec(`{"a":`)},
		"two values in a part":            {Key: key, Body: spec(`{},"status":{}`)},
		"space around a part":             {Key: key, Body: spec(`{} `)},
		"a part that is not UTF-8":        {Key: key, Body: spec("\"\xff\"")},
		"a fault that is not UTF-8":       {Key: key, Body: engine.Record{Parts: resource.Parts{resource.Fault: "\xff"}}},
		"a line break in a UID":           {Key: key, Body: engine.Record{UID: "a\nb"}},
		"space around an identity":        {Key: key, Body: engine.Record{By: " a"}},
		"a slash in a name":               {Key: resource.Key{Kind: "Application", Name: "a/b"}, Body: spec("{}")},
		"a slash in a kind":               {Key: resource.Key{Kind: "Appli/cation", Namespace: "a", Name: "b"}, Body: spec("{}")},
		"no name":                         {Key: resource.Key{Kind: "Application"}, Body: spec("{}")},
		"a record under a reserved key":   {Key: engine.AskKey, Body: spec("{}")},
		"a manifest under an object's":    {Key: key, Body: engine.Manifest{}},
		"a manifest that is taken away":   {Key: engine.ManifestKey, Body: engine.Tombstone{}},
		"an epoch that is not UTF-8":      {Key: engine.ManifestKey, Body: engine.Manifest{Epoch: "\xff"}},
		"a reserved key with a namespace": {Key: resource.Key{Kind: "$ask", Namespace: "a"}, Body: engine.Ask{}},
		"another body":                    {Key: key, Body: stranger{}},
	} {
		_, err := wire.Encode(m, envelope)
		require.Error(t, err, name)
	}
	for name, change := range map[string]func(*wire.Envelope){
		"no id":                  func(e *wire.Envelope) { e.ID = "" },
		"an impossible identity": func(e *wire.Envelope) { e.Source = "a b\x00" },
		"no plain trace":         func(e *wire.Envelope) { e.Tracestate = "a\r\nce-uid: 4711" },
	} {
		bad := envelope
		change(&bad)
		_, err := wire.Encode(examples["state"], bad)
		require.Error(t, err, name)
	}
}

type stranger struct{}

func (stranger) Digest() resource.Digest { return "d" }

func TestWhatCannotBeReadIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		name, of string
		change   func(*transport.Message)
		want     error
	}{
		{"an unknown type", "state", func(m *transport.Message) { m.Event.SetType(wire.Prefix + "rumour") }, wire.ErrType},
		{"somebody else's type", "state", func(m *transport.Message) { m.Event.SetType("state") }, wire.ErrType},
		{"a newer version", "state", func(m *transport.Message) { m.Event.SetExtension("protocolversion", "2") }, transport.ErrVersion},
		{"an older version", "state", func(m *transport.Message) { m.Event.SetExtension("protocolversion", "0") }, transport.ErrVersion},
		{"no version", "state", func(m *transport.Message) { m.Event.SetExtension("protocolversion", nil) }, wire.ErrMalformed},
		{"a changed value", "state", func(m *transport.Message) { replace(m, `"prod"`, `"test"`) }, wire.ErrDigest},
		{"a rounded number", "state", func(m *transport.Message) { replace(m, "9007199254740993", "9007199254740992") }, wire.ErrDigest},
		{"a changed UID", "state", func(m *transport.Message) { m.Event.SetExtension("uid", "another") }, wire.ErrDigest},
		{"another digest outside", "state", func(m *transport.Message) { m.Digest = "0" }, wire.ErrDigest},
		{"another digest inside", "state", func(m *transport.Message) { m.Event.SetExtension("digest", "0") }, wire.ErrDigest},
		{"no digest", "state", func(m *transport.Message) { m.Event.SetExtension("digest", nil) }, wire.ErrDigest},
		{"another subject", "state", func(m *transport.Message) { m.Event.SetSubject("Application/ns/b") }, wire.ErrMalformed},
		{"no key", "state", func(m *transport.Message) { m.Key = ""; m.Event.SetSubject("") }, wire.ErrMalformed},
		{"a key of two pieces", "state", func(m *transport.Message) { m.Key = "a/b"; m.Event.SetSubject("a/b") }, wire.ErrMalformed},
		{"an unknown phase", "state", func(m *transport.Message) { m.Event.SetExtension("phase", "leaving") }, wire.ErrMalformed},
		{"no phase", "state", func(m *transport.Message) { m.Event.SetExtension("phase", nil) }, wire.ErrMalformed},
		{"a line break in a UID", "state", func(m *transport.Message) { m.Event.SetExtension("uid", "a\nb") }, wire.ErrMalformed},
		{"another content type", "state", func(m *transport.Message) { m.Event.SetDataContentType("text/xml") }, wire.ErrMalformed},
		{"another CloudEvents", "state", func(m *transport.Message) { m.Event.Context = m.Event.Context.AsV03() }, wire.ErrMalformed},
		{"no data", "state", func(m *transport.Message) { m.Event.DataEncoded = nil }, wire.ErrMalformed},
		{"half the data", "state", func(m *transport.Message) { m.Event.DataEncoded = m.Event.Data()[:20] }, wire.ErrMalformed},
		{"a list", "state", func(m *transport.Message) { m.Event.DataEncoded = []byte("[]") }, wire.ErrMalformed},
		{"an id that is a number", "state", func(m *transport.Message) { replace(m, `"operationID":"`, `"operationID":1,"was":"`) }, wire.ErrMalformed},
		{"data that is not UTF-8", "state", func(m *transport.Message) { replace(m, `"prod"`, "\"\xff\"") }, wire.ErrMalformed},
		{"a tombstone with data", "tombstone", func(m *transport.Message) {
			m.Event.SetDataContentType("application/json")
			m.Event.DataEncoded = []byte("{}")
		}, wire.ErrMalformed},
		{"a tombstone of a manifest", "tombstone", rename("$manifest"), wire.ErrMalformed},
		{"a state of an ask", "state", rename("$ask"), wire.ErrMalformed},
		{"a manifest of an object", "manifest", rename("Application/ns/a"), wire.ErrMalformed},
		{"a bucket too high", "ask", func(m *transport.Message) { replace(m, `"buckets":[`, `"buckets":[256,`) }, wire.ErrMalformed},
		{"an ask for a reserved key", "ask", func(m *transport.Message) { replace(m, `"have":[`, `"have":[{"key":"$ask","digest":"0"},`) }, wire.ErrMalformed},
		{"a key that is listed twice", "ask", func(m *transport.Message) {
			replace(m, `"have":[`, `"have":[{"key":"Application/ns/a","digest":"0"},`)
		}, wire.ErrMalformed},
		{"too few sums", "sums", func(m *transport.Message) { replace(m, `"of":["0000000000000001",`, `"of":[`) }, wire.ErrMalformed},
		{"a short sum", "sums", func(m *transport.Message) { replace(m, `"0000000000000001"`, `"1"`) }, wire.ErrMalformed},
		{"an age that is a number", "fuse", func(m *transport.Message) { replace(m, `"age":"4711"`, `"age":4711`) }, wire.ErrMalformed},
		{"fewer rows than none", "manifest", func(m *transport.Message) { replace(m, `"count":3`, `"count":-3`) }, wire.ErrMalformed},
		{"a held key that is none", "fuse", func(m *transport.Message) { replace(m, `Application/ns/a`, `Application`) }, wire.ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := encode(t, c.of)
			c.change(&m)
			_, err := wire.Decode(m, reader)
			require.ErrorIs(t, err, c.want)
			var e *wire.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, err.Error(), envelope.ID)
			require.Contains(t, err.Error(), m.Event.Type())
			require.Equal(t, m.Key, e.Key)
		})
	}
	_, err := wire.Decode(transport.Message{Key: "Application/ns/a"}, reader)
	require.ErrorIs(t, err, wire.ErrMalformed)
}

func TestPartsOfANewerProgramAreLeftOut(t *testing.T) {
	m := encode(t, "state")
	replace(&m, `{"spec"`, `{"mood":{"of":"the day"},"spec"`)
	got, err := wire.Decode(m, reader)
	require.NoError(t, err)
	require.Equal(t, examples["state"], got)
}

func TestAVersionMayBeANumber(t *testing.T) {
	m := encode(t, "state")
	m.Event.SetExtension("protocolversion", 1)
	_, err := wire.Decode(m, reader)
	require.NoError(t, err)
}

func encode(t testing.TB, typ string) transport.Message {
	return encodeAs(t, typ, wire.Newest)
}

func encodeAs(t testing.TB, typ string, version int) transport.Message {
	e := envelope
	e.Version = version
	m, err := wire.Encode(examples[typ], e)
	require.NoError(t, err)
	return m
}

// replace changes the data, which must contain from.
func replace(m *transport.Message, from, to string) {
	text := string(m.Event.Data())
	if !strings.Contains(text, from) {
		panic("not in the data: " + from)
	}
	m.Event.DataEncoded = []byte(strings.Replace(text, from, to, 1))
}

func rename(key string) func(*transport.Message) {
	return func(m *transport.Message) {
		m.Key = key
		m.Event.SetSubject(key)
	}
}
