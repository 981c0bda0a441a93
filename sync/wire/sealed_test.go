package wire_test

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// another returns the pair of two strangers.
func another(t testing.TB) *seal.Pair {
	k, err := seal.New()
	require.NoError(t, err)
	own, err := seal.New()
	require.NoError(t, err)
	p, err := seal.Between(own, k.Public())
	require.NoError(t, err)
	return p
}

func TestWhatIsSecretIsNowhereInItsEvent(t *testing.T) {
	e := encode(t, "sealed")
	text, err := json.Marshal(e)
	require.NoError(t, err)
	for _, word := range []string{"hunter2", "aHVudGVyMg", "password", base64.StdEncoding.EncodeToString([]byte(`{"spec":{"data"`))[:16]} {
		require.NotContains(t, string(text), word)
	}
	require.Contains(t, string(text), "Secret/argocd/repo", "what is no secret can be found")
}

// TestADigestOfWhatIsSecretIsKeyed: who has the digest, and guesses what is in the Secret,
// does not learn whether that is right.
func TestADigestOfWhatIsSecretIsKeyed(t *testing.T) {
	r := examples["sealed"].Body.(engine.Record)
	guess := r
	guess.Seal = ""
	require.NotEqual(t, guess.Digest(), r.Digest())
	guess.Seal = another(t).Digest()
	require.NotEqual(t, guess.Digest(), r.Digest())
}

func TestWhatIsSecretIsNotWrittenInClear(t *testing.T) {
	m := examples["sealed"]
	for name, change := range map[string]func(*wire.Envelope, *engine.Record){
		"no pair":              func(e *wire.Envelope, _ *engine.Record) { e.Pair = nil },
		"another pair":         func(e *wire.Envelope, _ *engine.Record) { e.Pair = another(t) },
		"a digest without key": func(_ *wire.Envelope, r *engine.Record) { r.Seal = "" },
	} {
		e, r := envelope, m.Body.(engine.Record)
		change(&e, &r)
		_, err := wire.Encode(engine.Message{Key: m.Key, Body: r}, e)
		require.ErrorIs(t, err, wire.ErrKey, name)
		require.NotContains(t, err.Error(), "aHVudGVyMg", name)
	}
}

func TestWhatIsSealedIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		pair   *seal.Pair
		change func(*transport.Message)
		want   error
	}{
		"before the key is known": {nil, func(*transport.Message) {}, wire.ErrKey},
		"by another reader":       {another(t), func(*transport.Message) {}, seal.ErrOpen},
		"by its writer":           {writer, func(*transport.Message) {}, seal.ErrOpen},
		"under another name":      {reader, rename("Secret/argocd/other"), seal.ErrOpen},
		"with another digest":     {reader, func(m *transport.Message) { m.Digest = "0" }, seal.ErrOpen},
		"with another UID":        {reader, func(m *transport.Message) { m.Event.SetExtension("uid", "another") }, wire.ErrDigest},
		"with no body":            {reader, func(m *transport.Message) { m.Event.DataEncoded = []byte("{}") }, wire.ErrMalformed},
		"with a body of its own": {reader, func(m *transport.Message) {
			m.Event.DataEncoded = []byte(`{"sealed":"aHVudGVyMg=="}`)
		}, seal.ErrOpen},
		"as an Application": {reader, rename("Application/argocd/repo"), wire.ErrMalformed},
		"with nothing in it": {reader, func(m *transport.Message) {
			m.Event.DataEncoded, _ = json.Marshal(map[string][]byte{"sealed": writer.Seal([]byte("{}"), m.Key, m.Digest)})
		}, wire.ErrMalformed},
		"with a list in it": {reader, func(m *transport.Message) {
			m.Event.DataEncoded, _ = json.Marshal(map[string][]byte{"sealed": writer.Seal([]byte(`["hunter2"]`), m.Key, m.Digest)})
		}, wire.ErrMalformed},
		"in clear": {reader, func(m *transport.Message) {
			m.Event.SetType(wire.Prefix + "state")
			m.Event.DataEncoded = []byte(`{"spec":{"data":{"password":"aHVudGVyMg=="}}}`)
		}, wire.ErrMalformed},
	} {
		m := encode(t, "sealed")
		c.change(&m)
		_, err := wire.Decode(m, c.pair)
		require.ErrorIs(t, err, c.want, name)
		require.NotContains(t, err.Error(), "hunter2", name)
		require.NotContains(t, err.Error(), "aHVudGVyMg", name)
	}
}

// TestASecretThatIsNotSynchronisedIsNoSecret: there is nothing in its row.
func TestASecretThatIsNotSynchronisedIsNoSecret(t *testing.T) {
	m := engine.Message{Key: examples["sealed"].Key, Body: engine.Record{UID: "0b5c", By: "hub", Phase: engine.Excluded}}
	e := envelope
	e.Pair = nil
	row, err := wire.Encode(m, e)
	require.NoError(t, err)
	got, err := wire.Decode(row, nil)
	require.NoError(t, err)
	require.Equal(t, m, got)
}

// FuzzSealed hands Decode what a peer would seal who is right about its digest.
func FuzzSealed(f *testing.F) {
	f.Add([]byte(`{"spec":{"data":{"password":"aHVudGVyMg=="}}}`), `{"data":{"password":"aHVudGVyMg=="}}`)
	f.Add([]byte(`{"spec":`), `{}`)
	f.Fuzz(func(t *testing.T, data []byte, spec string) {
		r := engine.Record{Seal: writer.Digest(), Parts: resource.Parts{resource.Spec: spec}}
		if spec == "" { // then there is nothing to seal
			r.Seal = ""
		}
		m, err := wire.Encode(engine.Message{Key: examples["sealed"].Key, Body: r}, envelope)
		if err != nil {
			return
		}
		got, err := wire.Decode(m, reader)
		require.NoError(t, err)
		require.Equal(t, r, got.Body)
		m.Event.DataEncoded, err = json.Marshal(map[string][]byte{"sealed": writer.Seal(data, m.Key, m.Digest)})
		require.NoError(t, err)
		if got, err = wire.Decode(m, reader); err == nil {
			require.Equal(t, spec, got.Body.(engine.Record).Parts[resource.Spec])
		}
	})
}
