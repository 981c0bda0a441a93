package agentsfile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// FuzzParse hands parse any file: it refuses it, or gives agents with good names of their own,
// which are read again as they are written.
func FuzzParse(f *testing.F) {
	f.Add([]byte("agents:\n- name: edge-1\n  mode: managed\n- {name: edge-2, mode: autonomous}\n"))
	f.Add([]byte("agents: [&a {name: a, mode: managed}, *a]"))
	f.Add([]byte("agents: []"))
	f.Fuzz(func(t *testing.T, text []byte) {
		agents, err := parse("agents.yaml", text)
		if err != nil {
			return
		}
		for i, a := range agents {
			require.NoError(t, identity.CheckName(a.Name))
			require.True(t, i == 0 || agents[i-1].Name < a.Name)
		}
		if len(agents) == 0 {
			return
		}
		again, err := format(agents)
		require.NoError(t, err)
		got, err := parse("agents.yaml", again)
		require.NoError(t, err)
		require.Equal(t, agents, got)
	})
}
