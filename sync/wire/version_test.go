package wire_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

func TestTheNewestAndTheTwoBeforeItAreSpoken(t *testing.T) {
	s := wire.Spoken()
	require.Equal(t, wire.Newest, s.Newest)
	require.GreaterOrEqual(t, s.Oldest, 1)
	require.GreaterOrEqual(t, 2, s.Newest-s.Oldest)
	require.True(t, s.Oldest == 1 || s.Newest-s.Oldest == 2)
}

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		a, b, both wire.Range
		ok         bool
	}{
		{wire.Range{Oldest: 2, Newest: 4}, wire.Range{Oldest: 2, Newest: 4}, wire.Range{Oldest: 2, Newest: 4}, true},
		{wire.Range{Oldest: 2, Newest: 4}, wire.Range{Oldest: 1, Newest: 3}, wire.Range{Oldest: 2, Newest: 3}, true},
		{wire.Range{Oldest: 2, Newest: 4}, wire.Range{Oldest: 4, Newest: 6}, wire.Range{Oldest: 4, Newest: 4}, true},
		{wire.Range{Oldest: 2, Newest: 4}, wire.Range{Oldest: 1, Newest: 9}, wire.Range{Oldest: 2, Newest: 4}, true},
		{wire.Range{Oldest: 2, Newest: 4}, wire.Range{Oldest: 1, Newest: 1}, wire.Range{}, false},
		{wire.Range{Oldest: 2, Newest: 4}, wire.Range{Oldest: 5, Newest: 7}, wire.Range{}, false},
		{wire.Range{Oldest: 2, Newest: 4}, wire.Range{Oldest: 0, Newest: 0}, wire.Range{}, false},
	} {
		t.Run(fmt.Sprint(c.a, " and ", c.b), func(t *testing.T) {
			for _, pair := range [][2]wire.Range{{c.a, c.b}, {c.b, c.a}} {
				both, ok := pair[0].With(pair[1])
				require.Equal(t, c.ok, ok)
				if !ok {
					continue
				}
				require.Equal(t, c.both, both)
				for v := range 10 {
					require.Equal(t, c.a.Has(v) && c.b.Has(v), both.Has(v), v)
				}
				require.True(t, pair[0].Holds(both))
				require.Equal(t, both == pair[0], both.Holds(pair[0]))
			}
		})
	}
	require.Equal(t, "2 to 4", wire.Range{Oldest: 2, Newest: 4}.String())
	require.Equal(t, "4", wire.Range{Oldest: 4, Newest: 4}.String())
}

// TestTombstonesSayTheSameInAllVersions: of which original they are is in their headers.
func TestTombstonesSayTheSameInAllVersions(t *testing.T) {
	m := encodeAs(t, "tombstone", wire.Newest+7)
	_, err := wire.Decode(m, reader)
	require.ErrorIs(t, err, transport.ErrVersion)
	got, ok := wire.Unreadable(m, err)
	require.True(t, ok)
	require.Equal(t, examples["tombstone"], got)

	m.Event.SetExtension("uid", " of old")
	got, ok = wire.Unreadable(m, err)
	require.True(t, ok)
	require.Equal(t, engine.Tombstone{}, got.Body, "what is not plain is not believed")
}

// TestReadersTakeTheirOwnVersionsOnly: an event says the version that it was written in, and
// is read by those who speak it.
func TestReadersTakeTheirOwnVersionsOnly(t *testing.T) {
	for name := range examples {
		for v := 1; v <= 5; v++ {
			m := encodeAs(t, name, v)
			got, ok := wire.VersionOf(m)
			require.True(t, ok)
			require.Equal(t, v, got)
			body, err := wire.Range{Oldest: 2, Newest: 4}.Decode(m, reader)
			if v < 2 || v > 4 {
				require.ErrorIs(t, err, transport.ErrVersion)
				require.ErrorContains(t, err, "read is 2 to 4")
				continue
			}
			require.NoError(t, err)
			require.Equal(t, examples[name], body)
		}
	}
	_, ok := wire.VersionOf(transport.Message{})
	require.False(t, ok)
	m := encode(t, "state")
	m.Event.SetExtension("protocolversion", "new")
	_, ok = wire.VersionOf(m)
	require.False(t, ok)
}
