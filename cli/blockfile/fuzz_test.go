package blockfile

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// FuzzParse hands parse any file: it refuses it, or all that is in it is blocked, and read
// again as it is written.
func FuzzParse(f *testing.F) {
	f.Add([]byte("edge-7: it was sold\n"))
	f.Add([]byte("\"4F:0C:4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c\": \"\"\n"))
	f.Add([]byte("{}"))
	f.Add([]byte("? [a]\n: b"))
	f.Fuzz(func(t *testing.T, text []byte) {
		is, err := File("blocked.yaml").parse(text)
		if err != nil {
			return
		}
		for who := range is {
			_, err := identity.BlockEntry(who)
			require.NoError(t, err)
		}
		again, err := yaml.Marshal(is)
		require.NoError(t, err)
		got, err := File("blocked.yaml").parse(again)
		require.NoError(t, err)
		require.Equal(t, is, got)
	})
}
