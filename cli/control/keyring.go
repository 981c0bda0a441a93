package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/kube"
	"github.com/argocd-fabric/argocd-agent/cli/livefile"
)

// tokenKey is the key in the Secret argocd-agent-jwt, and the name of the file, that has the
// keys of tokens.
const tokenKey = "jwt.key"

// A keyring is where the keys of tokens are kept, as a text of package token's.
type keyring interface {
	// String says where that is.
	fmt.Stringer
	// read returns the text; fs.ErrNotExist if there is none.
	read(ctx context.Context) ([]byte, error)
	// write keeps a text. One that is there is fs.ErrExist, unless it may be replaced.
	write(ctx context.Context, text []byte, replace bool) error
	// remove removes it.
	remove(ctx context.Context) error
}

func openKeyring(c *cli.Context) (keyring, error) {
	if dir := c.String("dir"); dir != "" {
		return keyFile(filepath.Join(dir, tokenKey)), nil
	}
	hub, err := secretsOf(c, "principal-context", "principal-namespace")
	return keySecret{hub}, err
}

// A keyFile is a keyring in a file.
type keyFile string

func (f keyFile) String() string { return string(f) }

func (f keyFile) read(context.Context) ([]byte, error) { return os.ReadFile(string(f)) }

func (f keyFile) write(_ context.Context, text []byte, replace bool) error {
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o700); err != nil {
		return fmt.Errorf("control: keep key: %w", err)
	}
	if replace {
		return livefile.Replace(string(f), text)
	}
	return create(string(f), text, 0o600)
}

func (f keyFile) remove(context.Context) error { return os.Remove(string(f)) }

// A keySecret is a keyring in the Secret of the control plane's cluster.
type keySecret struct{ secrets *kube.Secrets }

func (keySecret) String() string { return "Secret " + secretTokens }

func (k keySecret) read(ctx context.Context) ([]byte, error) {
	data, err := k.secrets.Get(ctx, secretTokens)
	if err != nil {
		return nil, missing(err)
	}
	return data[tokenKey], nil
}

func (k keySecret) write(ctx context.Context, text []byte, replace bool) error {
	err := k.secrets.Put(ctx, secretTokens, map[string][]byte{tokenKey: text}, replace)
	if errors.Is(err, kube.ErrThere) {
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return err
}

func (k keySecret) remove(ctx context.Context) error {
	return missing(k.secrets.Delete(ctx, secretTokens))
}

// missing has an error that says that a Secret is not there be fs.ErrNotExist, too.
func missing(err error) error {
	if kube.Missing(err) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}
