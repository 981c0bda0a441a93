package arch

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutantsFitTheEngine holds that each mutant can still be made: only some are tried each
// time.
func TestMutantsFitTheEngine(t *testing.T) {
	root := filepath.Join("..", "..")
	patches, err := filepath.Glob(filepath.Join(root, "sync", "engine", "testdata", "mutants", "*.patch"))
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	for _, p := range patches {
		absolute, err := filepath.Abs(p)
		require.NoError(t, err)
		check := exec.CommandContext(t.Context(), "git", "apply", "--check", absolute)
		check.Dir = root
		output, err := check.CombinedOutput()
		require.NoError(t, err, "%s: %s", filepath.Base(p), output)
	}
}
