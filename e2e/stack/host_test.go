package stack

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingProgramsAreNamedWhereTheyCannotBeInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out bytes.Buffer
	b := &Binaries{cache: t.TempDir(), paths: map[string]string{}}
	err := b.host(t.Context(), &out)
	require.EqualError(t, err, "not found on the PATH: redis-server, git; "+
		"install them (Debian: apt-get install redis-server git)")
	require.Empty(t, out.String())
}

func TestServicesAreDeniedForAWhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy-rc.d")
	allow, err := denyServices(path)
	require.NoError(t, err)
	var exit *exec.ExitError
	require.ErrorAs(t, exec.Command(path, "redis-server", "start").Run(), &exit)
	require.Equal(t, 101, exit.ExitCode())

	nested, err := denyServices(path)
	require.NoError(t, err)
	nested()
	require.FileExists(t, path, "it belongs to somebody else")
	allow()
	_, err = os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
}
