package wire_test

import (
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// FuzzDecode hands Decode any event: it refuses it, or gives a message that is encoded to
// the same again.
func FuzzDecode(f *testing.F) {
	for name := range examples {
		e := encode(f, name)
		ext := func(name string) string { s, _ := e.Event.Extensions()[name].(string); return s }
		f.Add(e.Key, e.Event.Type(), ext("protocolversion"), e.Digest, ext("uid"), ext("by"), ext("phase"), ext("after"), e.Event.Data())
	}
	f.Fuzz(func(t *testing.T, key, typ, version, digest, uid, by, phase, after string, data []byte) {
		ev := event.New()
		ev.SetID("1")
		ev.SetSource("argocd-agent://fuzz")
		ev.SetType(typ)
		ev.SetSubject(key)
		ev.SetDataContentType(event.ApplicationJSON)
		ev.DataEncoded = data
		for k, v := range map[string]string{
			"protocolversion": version, "digest": digest, "uid": uid, "by": by, "phase": phase, "after": after,
		} {
			ev.SetExtension(k, v)
		}
		m, err := wire.Decode(transport.Message{Key: key, Digest: digest, Event: ev}, reader)
		if err != nil {
			var e *wire.Error
			require.ErrorAs(t, err, &e)
			return
		}
		again, err := wire.Encode(m, envelope)
		require.NoError(t, err)
		require.Equal(t, key, again.Key)
		require.Equal(t, digest, again.Digest)
		back, err := wire.Decode(again, reader)
		require.NoError(t, err)
		require.Equal(t, m, back)
	})
}

// FuzzState hands Decode the state that a peer would write who puts data into a record
// and is right about its digest, so that the parts are reached.
func FuzzState(f *testing.F) {
	f.Add(encode(f, "state").Event.Data(), string(encode(f, "state").Event.Data()))
	f.Add([]byte(`{"spec": {"a": [1, 2.0]} , "fault": "\u00e9\ud800"}`), `{"a": [1, 2.0]}`)
	f.Fuzz(func(t *testing.T, data []byte, spec string) {
		m, err := wire.Encode(engine.Message{
			Key: resource.Key{Kind: resource.Application, Name: "a"}, Body: engine.Record{Parts: resource.Parts{resource.Spec: spec}},
		}, envelope)
		if err != nil {
			return
		}
		got, err := wire.Decode(m, reader)
		require.NoError(t, err)
		require.Equal(t, spec, got.Body.(engine.Record).Parts[resource.Spec])
		m.Event.DataEncoded = data
		if got, err = wire.Decode(m, reader); err == nil {
			require.Equal(t, spec, got.Body.(engine.Record).Parts[resource.Spec])
		}
	})
}

// FuzzKey hands Key any name: of all spellings of a key it takes one.
func FuzzKey(f *testing.F) {
	for _, e := range examples {
		f.Add(wire.Name(e.Key))
	}
	f.Add("a/%2F/b")
	f.Fuzz(func(t *testing.T, name string) {
		k, err := wire.Key(name)
		if err == nil {
			require.Equal(t, name, wire.Name(k))
		}
	})
}

// FuzzOpened hands Opened any row of a log: whatever it says of itself, the engine can sum it.
func FuzzOpened(f *testing.F) {
	for name := range examples {
		e := encode(f, name)
		f.Add(e.Key, e.Digest, "1", "live", e.Event.Data())
	}
	f.Fuzz(func(t *testing.T, key, digest, version, phase string, data []byte) {
		ev := event.New()
		ev.SetType(wire.Prefix + "manifest")
		ev.SetSubject(key)
		ev.SetDataContentType(event.ApplicationJSON)
		ev.DataEncoded = data
		ev.SetExtension("protocolversion", version)
		ev.SetExtension("phase", phase)
		ev.SetExtension("digest", digest)
		row := transport.Message{Key: key, Digest: digest, Event: ev}
		got, err := wire.Opened(transport.Log{Epoch: "e", Keeps: true, Rows: map[string]transport.Message{key: row}}, wire.Spoken(), wire.Spoken())
		if len(got.Holds) == 0 {
			require.Error(t, err)
			return
		}
		e := engine.New(engine.Config{Self: "hub", Side: resource.Principal})
		for range 2 {
			e.Step(time.Unix(1, 0), got)
		}
	})
}
