package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// TestATraceTravelsBesideTheRow holds that a trace changes nothing of what is said.
func TestATraceTravelsBesideTheRow(t *testing.T) {
	m := engine.Message{Key: resource.Key{Kind: resource.Application, Name: "a"}, Body: engine.Tombstone{UID: "u"}}
	noon, trace := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	with, err := Encode(m, Envelope{ID: "1", Source: "hub", Time: noon, Traceparent: trace})
	require.NoError(t, err)
	without, err := Encode(m, Envelope{ID: "1", Source: "hub", Time: noon})
	require.NoError(t, err)
	require.Equal(t, without.Digest, with.Digest)
	back, err := Decode(with, nil)
	require.NoError(t, err)
	require.Equal(t, m, back)

	at, said := Posted(with)
	require.Equal(t, trace, said)
	require.True(t, at.Equal(noon))
	_, said = Posted(without)
	require.Empty(t, said)
	at, said = Posted(transport.Message{})
	require.True(t, at.IsZero())
	require.Empty(t, said)
}
