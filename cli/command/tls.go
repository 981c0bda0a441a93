package command

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// tlsFlags names the flags that say where a side's certificate, key and CA are: in files
// or, where no file is named, in Secrets.
type tlsFlags struct {
	cert, key, pair string // two files, or a Secret
	ca, caSecret    string
}

func principalTLS() tlsFlags {
	return tlsFlags{cert: "tls-cert", key: "tls-key", pair: "tls-secret-name", ca: "root-ca-path", caSecret: "tls-ca-secret-name"}
}

func agentTLS() tlsFlags {
	return tlsFlags{cert: "tls-client-cert", key: "tls-client-key", pair: "tls-secret-name", ca: "root-ca-path", caSecret: "root-ca-secret-name"}
}

// load loads certificate, key and CA. What is in a Secret is in a file, which nobody else
// can read, until load has returned.
func (f tlsFlags) load(c *cli.Context, s secrets, read func(identity.Files) (*tls.Config, error)) (*tls.Config, error) {
	dir, err := os.MkdirTemp("", "argocd-agent-tls-")
	if err != nil {
		return nil, fmt.Errorf("command: load certificates: %w", err)
	}
	defer os.RemoveAll(dir) // if it stays, it is still nobody else's
	files, err := f.find(c, s, dir)
	if err != nil {
		return nil, err
	}
	return read(files)
}

func (f tlsFlags) find(c *cli.Context, s secrets, dir string) (files identity.Files, err error) {
	files = identity.Files{Cert: c.String(f.cert), Key: c.String(f.key), CA: c.String(f.ca)}
	if (files.Cert == "") != (files.Key == "") {
		return files, &shell.UsageError{Where: "--" + f.cert + ", --" + f.key, What: "only one of them is given", Advice: "give both, or none"}
	}
	if files.Cert == "" {
		name := c.String(f.pair)
		if files.Cert, err = fetch(c, s, dir, name, "tls.crt"); err != nil {
			return files, err
		}
		if files.Key, err = fetch(c, s, dir, name, "tls.key"); err != nil {
			return files, err
		}
	}
	if files.CA == "" {
		// The hub's Secret is that of the CA itself, an agent's holds the CA's certificate only.
		files.CA, err = fetch(c, s, dir, c.String(f.caSecret), "ca.crt", "tls.crt")
	}
	return files, err
}

// fetch puts into a file of dir what a Secret has under the first of keys that it has.
func fetch(c *cli.Context, s secrets, dir, secret string, keys ...string) (string, error) {
	data, err := s(c.Context, secret)
	if usage := (*shell.UsageError)(nil); errors.As(err, &usage) {
		return "", err
	}
	if err != nil {
		return "", fmt.Errorf("%w; name files, or make it: argocd-agentctl pki issue --help", err)
	}
	i := slices.IndexFunc(keys, func(k string) bool { return len(data[k]) > 0 })
	if i < 0 {
		return "", fmt.Errorf("command: load certificates: Secret %s has no %s, but %q", secret, keys[0], slices.Sorted(maps.Keys(data)))
	}
	file := filepath.Join(dir, secret+"-"+keys[i])
	if err := os.WriteFile(file, data[keys[i]], 0o600); err != nil {
		return "", fmt.Errorf("command: load certificates: %w", err)
	}
	return file, nil
}
