package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
	"go.uber.org/zap/zaptest"
)

// TestWhatIsStaleIsDiscarded: a store is removed when its transport comes back into use, and else
// stays.
func TestWhatIsStaleIsDiscarded(t *testing.T) {
	dir := t.TempDir()
	nats, grpc := filepath.Join(dir, "nats", "jetstream", "HUB", "x"), filepath.Join(dir, "state", "grpc-copy.db")
	client := filepath.Join(dir, "state", "nats-copy.db")
	run := func(names ...string) {
		app := &cli.App{
			Flags: []cli.Flag{&cli.StringFlag{Name: "nats-store-dir", Value: filepath.Join(dir, "nats")}, &cli.StringFlag{Name: "state-dir", Value: filepath.Join(dir, "state")}},
			Action: func(c *cli.Context) error {
				return discardStale(c, names, zaptest.NewLogger(t))
			},
		}
		require.NoError(t, app.RunContext(t.Context(), []string{"program"}))
	}
	for _, path := range []string{nats, grpc, client} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("kept"), 0o600))
	}
	run("nats") // where nothing is known, nothing is removed
	require.FileExists(t, nats)
	require.FileExists(t, grpc)
	run("nats")
	require.FileExists(t, nats)
	run("grpc")
	require.NoFileExists(t, grpc)
	require.FileExists(t, nats, "it is not in use, and may be somebody's")
	require.NoError(t, os.WriteFile(grpc, []byte("kept"), 0o600))
	run("nats", "grpc")
	require.FileExists(t, grpc)
	require.NoFileExists(t, nats)
	require.FileExists(t, filepath.Join(dir, "state", lastTransports))
	require.FileExists(t, client)
	run(natsClient)
	require.NoFileExists(t, client)
	require.NoError(t, os.MkdirAll(filepath.Dir(nats), 0o700))
	require.NoError(t, os.WriteFile(nats, []byte("kept"), 0o600))
	run("nats")
	require.NoFileExists(t, nats)
}
