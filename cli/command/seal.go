package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/seal"
)

// The Secrets, or files where there are none, that have the key of each side for what is
// secret. Each is made by the first start.
const (
	principalSeal = "argocd-agent-principal-seal-key"
	agentSeal     = "argocd-agent-seal-key"
)

// keeper returns what is kept under a name; if there is nothing, it keeps what fresh returns.
type keeper func(ctx context.Context, name string, fresh func() ([]byte, error)) ([]byte, error)

// sealKey returns the key that keep has under a name.
func sealKey(ctx context.Context, keep keeper, name string) (seal.Key, error) {
	text, err := keep(ctx, name, func() ([]byte, error) {
		k, err := seal.New()
		if err != nil {
			return nil, err
		}
		return k.Marshal()
	})
	if err != nil {
		return seal.Key{}, err
	}
	k, err := seal.Parse(text)
	if err != nil {
		return seal.Key{}, fmt.Errorf("command: %s: %w; delete it, and another is made", name, err)
	}
	return k, nil
}

// keepFile is a keeper in a folder, with files that nobody else may read. A folder that cannot
// be used is no reason not to start: what is kept is then kept as long as the process lives.
func keepFile(dir string, log *zap.Logger) keeper {
	return func(_ context.Context, name string, fresh func() ([]byte, error)) ([]byte, error) {
		path := filepath.Join(dir, name+".pem")
		text, err := os.ReadFile(path)
		if err == nil {
			return text, nil
		}
		text, failed := fresh()
		if failed != nil {
			return nil, fmt.Errorf("command: make key: %w", failed)
		}
		if errors.Is(err, fs.ErrNotExist) { // else there is one, which may be read another time
			if err = os.MkdirAll(dir, 0o700); err == nil {
				err = writeWhole(path, text)
			}
		}
		if err != nil {
			log.Warn("a key is kept in memory, for its file cannot be used: what is secret travels anew after each start", zap.Error(err))
		}
		return text, nil
	}
}

// writeWhole writes a file that nobody else may read, so that it is there whole or not at all.
func writeWhole(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // if it has not become path
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// stateDir returns the folder in which a program keeps what is nobody else's.
func stateDir(c *cli.Context) string {
	if dir := c.String("state-dir"); dir != "" {
		return dir
	}
	return filepath.Join(c.String("nats-store-dir"), "state")
}
