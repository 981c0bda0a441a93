package wire_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// logOf returns a log that holds these rows as a Link gives them: without data unless
// reserved.
func logOf(t *testing.T, types ...string) transport.Log {
	log := transport.Log{Epoch: "e1", Keeps: true, Rows: map[string]transport.Message{}}
	for _, typ := range types {
		m := encode(t, typ)
		if !engine.Reserved(examples[typ].Key) {
			m.Event.DataEncoded = nil
		}
		log.Rows[m.Key] = m
	}
	return log
}

func TestOpenedSaysWhatTheLogHolds(t *testing.T) {
	got, err := wire.Opened(logOf(t, "state", "manifest", "ask", "fuse"), wire.Spoken(), wire.Spoken())
	require.NoError(t, err)
	state := examples["state"]
	manifest := examples["manifest"].Body.(engine.Manifest)
	fuse := examples["fuse"].Body.(engine.Fuse)
	require.Equal(t, engine.Opened{
		Epoch: "e1",
		Keeps: true,
		Holds: map[resource.Key]engine.Held{
			state.Key:          {Digest: state.Body.Digest(), UID: "0b5c", After: "0a4b"},
			engine.ManifestKey: {Digest: manifest.Digest()},
			engine.AskKey:      {Digest: examples["ask"].Body.Digest()},
			engine.FuseKey:     {Digest: fuse.Digest()},
		},
		Manifest: &manifest,
		Fuse:     &fuse,
	}, got)
}

func TestOpenedOfAnEmptyLog(t *testing.T) {
	got, err := wire.Opened(transport.Log{Epoch: "e2"}, wire.Spoken(), wire.Spoken())
	require.NoError(t, err)
	require.Equal(t, engine.Opened{Epoch: "e2", Holds: map[resource.Key]engine.Held{}}, got)
}

func TestOpenedLeavesOutWhatItCannotRead(t *testing.T) {
	log := logOf(t, "state", "manifest", "fuse")
	log.Rows["nonsense"] = transport.Message{Key: "nonsense", Digest: "d"}
	broken := log.Rows["$fuse"]
	broken.Event.DataEncoded = []byte("{")
	log.Rows["$fuse"] = broken
	got, err := wire.Opened(log, wire.Spoken(), wire.Spoken())
	require.ErrorContains(t, err, "nonsense")
	require.ErrorContains(t, err, "$fuse")
	require.Equal(t, &engine.Fuse{Back: true}, got.Fuse, "what it remembered may be anything")
	require.NotNil(t, got.Manifest)
	require.Contains(t, got.Holds, examples["state"].Key)
	require.Contains(t, got.Holds, engine.FuseKey, "it is there to be replaced")
}

// A log says of a row how far the deletion of its original is.
func TestOpenedSaysThePhase(t *testing.T) {
	k := examples["state"].Key
	m, err := wire.Encode(engine.Message{Key: k, Body: engine.Record{UID: "u", By: "hub", Phase: engine.Going}}, envelope)
	require.NoError(t, err)
	m.Event.DataEncoded = nil
	got, err := wire.Opened(transport.Log{Epoch: "e1", Keeps: true, Rows: map[string]transport.Message{m.Key: m}}, wire.Spoken(), wire.Spoken())
	require.NoError(t, err)
	require.Equal(t, engine.Going, got.Holds[k].Phase)
	require.Equal(t, "u", got.Holds[k].UID)
}

// Rows that the peer does not read are to be written again, and their headers are known all
// the same; what they say is read as long as we do.
func TestOpenedHasRowsOfAnotherVersionWrittenAgain(t *testing.T) {
	log := logOf(t, "state", "manifest", "fuse")
	ours, common := wire.Range{Oldest: 2, Newest: 4}, wire.Range{Oldest: 2, Newest: 3}
	for _, c := range []struct {
		version   string
		read, fit bool // by us, by the peer
	}{
		{"1", false, false}, {"2", true, true}, {"3", true, true}, {"4", true, false}, {"5", false, false},
	} {
		for _, m := range log.Rows {
			m.Event.SetExtension("protocolversion", c.version)
		}
		got, err := wire.Opened(log, ours, common)
		require.Equal(t, c.read, err == nil, c.version)
		require.Equal(t, c.read, got.Manifest != nil, c.version)
		require.Equal(t, !c.read, reflect.DeepEqual(*got.Fuse, engine.Fuse{Back: true}), c.version)
		for name, row := range log.Rows {
			k, err := wire.Key(name)
			require.NoError(t, err)
			held := got.Holds[k]
			require.Equal(t, c.fit, string(held.Digest) == row.Digest, "%s of %s", name, c.version)
			require.Len(t, held.Digest, len(resource.Sum()), "it is summed as any other")
		}
		state := got.Holds[examples["state"].Key]
		require.Equal(t, "0b5c", state.UID)
		require.Equal(t, engine.Line("0a4b"), state.After)
	}
}
