package resource

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A copy is synced as its spec says that it is to be, with nothing pruned.
func TestSyncOperation(t *testing.T) {
	for spec, want := range map[string]string{
		"":            `{"initiatedBy":{"automated":true,"username":"agent"},"sync":{}}`,
		`"no object"`: `{"initiatedBy":{"automated":true,"username":"agent"},"sync":{}}`,
		`{"syncPolicy":{"automated":{"prune":true},"retry":{"limit":2},"syncOptions":["CreateNamespace=true"]}}`: `{"initiatedBy":{"automated":true,"username":"agent"},"retry":{"limit":2},"sync":{"syncOptions":["CreateNamespace=true"]}}`,
	} {
		require.Equal(t, want, SyncOperation(spec, "agent"), spec)
	}
}

// Only what an agent makes of the hub's Applications is synced, and only if it is told so.
func TestResyncs(t *testing.T) {
	r := Rules{Recreate: Resynced}
	require.True(t, r.Resyncs(Agent, Application))
	require.False(t, r.Resyncs(Principal, Application))
	require.False(t, r.Resyncs(Agent, Project))
	require.False(t, Rules{Mode: Autonomous, Recreate: Resynced}.Resyncs(Agent, Application))
	for _, policy := range []Recreation{Ignored, Cleared} {
		require.False(t, Rules{Recreate: policy}.Resyncs(Agent, Application))
	}
}

func TestKeysAreParsed(t *testing.T) {
	for _, k := range []Key{{Application, "", "web"}, {Secret, "ns", "a.b"}} {
		got, ok := ParseKey(k.String())
		require.True(t, ok)
		require.Equal(t, k, got)
	}
	for _, text := range []string{"Application", "Application//web"} {
		_, ok := ParseKey(text)
		require.False(t, ok, text)
	}
}
