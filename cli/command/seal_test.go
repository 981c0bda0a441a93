package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestAKeyInAFileIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := sealKey(t.Context(), keepFile(dir, zap.NewNop()), agentSeal)
	require.NoError(t, err)
	again, err := sealKey(t.Context(), keepFile(dir, zap.NewNop()), agentSeal)
	require.NoError(t, err)
	require.Equal(t, first.Public(), again.Public())
	path := filepath.Join(dir, agentSeal+".pem")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	require.NoError(t, os.WriteFile(path, []byte("hunter2"), 0o600))
	_, err = sealKey(t.Context(), keepFile(dir, zap.NewNop()), agentSeal)
	require.ErrorContains(t, err, agentSeal)
	require.ErrorContains(t, err, "delete it")
	require.NotContains(t, err.Error(), "hunter2")

	require.NoError(t, os.Remove(path))
	other, err := sealKey(t.Context(), keepFile(dir, zap.NewNop()), agentSeal)
	require.NoError(t, err)
	require.NotEqual(t, first.Public(), other.Public())

	logged, logs := observer.New(zap.WarnLevel)
	_, err = sealKey(t.Context(), keepFile(path, zap.New(logged)), agentSeal)
	require.NoError(t, err, "a file is no folder, but the program starts")
	require.Equal(t, 1, logs.Len())
}
