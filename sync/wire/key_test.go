package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
)

func TestNames(t *testing.T) {
	for name, k := range map[string]resource.Key{
		"Application/ns/a":     {Kind: "Application", Namespace: "ns", Name: "a"},
		"Application//a.b:c-d": {Kind: "Application", Name: "a.b:c-d"},
		"$manifest":            engine.ManifestKey,
		"$approval":            engine.ApprovalKey,
	} {
		require.Equal(t, name, wire.Name(k))
		got, err := wire.Key(name)
		require.NoError(t, err)
		require.Equal(t, k, got)
	}
	for _, name := range []string{"", "$", "a", "a/b", "/ns/a", "Application/ns/", "a/b/c/d", "$ask//a", "$ask/", "A/b/c\n", "A/b/\xff"} {
		_, err := wire.Key(name)
		require.ErrorIs(t, err, wire.ErrMalformed, name)
	}
}

func TestNoTwoKeysHaveOneName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := aKey().Draw(t, "key")
		got, err := wire.Key(wire.Name(k))
		require.NoError(t, err)
		require.Equal(t, k, got)
	})
}
