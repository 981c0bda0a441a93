package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

// An item is something that a vault keeps: the certificate and key of a server of the
// principal's, of an agent or, if it is neither, of the CA.
type item struct {
	server server
	agent  string
}

// A server is one of the principal's: where its certificate is kept, in a folder and in a
// cluster.
type server struct{ file, secret string }

var (
	forAgents = server{"principal", secretPrincipal}
	forArgoCD = server{"resource-proxy", secretProxy}
)

const replaceHint = "--force (pki init) or --upsert (pki issue)"

// A vault is where certificates and keys are kept.
type vault interface {
	// root returns the CA.
	root(c *cli.Context) (pki.Pair, error)
	// find returns what an agent was given.
	find(c *cli.Context, agent string) (kept, error)
	// keep keeps an item, and says so; with it, where agents find them, the certificate of
	// the CA that signed it. What is there already is replaced only if replace is set.
	keep(c *cli.Context, i item, p pki.Pair, ca []byte, replace bool) error
}

// A kept is an agent's certificate and key, and the certificate of the CA that it trusts, each
// as PEM. Where says where the certificate is.
type kept struct {
	pki.Pair
	CA    []byte
	Where string
}

func vaultFlags() []cli.Flag {
	return append([]cli.Flag{env.String("dir", "PKI_DIR", "", "keep certificates and keys in this `folder`, not in a cluster")}, hubClusterFlags()...)
}

func openVault(c *cli.Context) (vault, error) {
	if dir := c.String("dir"); dir != "" {
		return folder(dir), nil
	}
	return openSecrets(c)
}

// A folder is a vault of files.
type folder string

// base returns the path of an item's files without their extensions. Agents have a folder
// of their own: one of them may be called ca.
func (f folder) base(i item) string {
	switch {
	case i.server != server{}:
		return filepath.Join(string(f), i.server.file)
	case i.agent != "":
		return filepath.Join(string(f), "agents", i.agent)
	}
	return filepath.Join(string(f), "ca")
}

func (f folder) root(*cli.Context) (p pki.Pair, err error) {
	base := f.base(item{})
	if p.Cert, err = os.ReadFile(base + ".crt"); err == nil {
		p.Key, err = os.ReadFile(base + ".key")
	}
	if err != nil {
		return pki.Pair{}, fmt.Errorf("control: read the CA: %w", err)
	}
	return p, nil
}

func (f folder) find(_ *cli.Context, agent string) (k kept, err error) {
	base := f.base(item{agent: agent})
	k.Where = base + ".crt"
	for _, part := range []struct {
		file string
		to   *[]byte
	}{{k.Where, &k.Cert}, {base + ".key", &k.Key}, {f.base(item{}) + ".crt", &k.CA}} {
		if *part.to, err = os.ReadFile(part.file); err != nil {
			return kept{}, fmt.Errorf("control: read certificate: %w", err)
		}
	}
	return k, nil
}

func (f folder) keep(c *cli.Context, i item, p pki.Pair, _ []byte, replace bool) error {
	base := f.base(i)
	if err := os.MkdirAll(filepath.Dir(base), 0o700); err != nil {
		return fmt.Errorf("control: keep certificate: %w", err)
	}
	write := create
	if replace {
		write = os.WriteFile
	}
	// The key comes first: a certificate is there only with its key.
	for _, part := range []struct {
		file string
		text []byte
	}{{base + ".key", p.Key}, {base + ".crt", p.Cert}} {
		err := write(part.file, part.text, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("control: %s is there already; to replace it add %s", part.file, replaceHint)
		}
		if err != nil {
			return fmt.Errorf("control: keep certificate: %w", err)
		}
	}
	_, err := fmt.Fprintf(c.App.Writer, "wrote %[1]s.crt and %[1]s.key\n", base)
	return err
}

// create is os.WriteFile for a file that must not be there.
func create(name string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
