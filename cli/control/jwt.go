package control

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/proxy/token"
)

func jwtCommand() *cli.Command {
	return &cli.Command{
		Name:  "jwt",
		Usage: "make the key of the tokens by which Argo CD reaches the agents' clusters",
		Subcommands: []*cli.Command{
			{
				Name:  "create-key",
				Usage: "make a key",
				Flags: append(vaultFlags(),
					&cli.StringFlag{Name: "key-algorithm", Aliases: []string{"key-type"}, Value: string(token.RSA), Usage: "the `algorithm` of the key: ecdsa, ed25519 or rsa"},
					&cli.IntFlag{Name: "key-size", Value: token.DefaultBits, Action: shell.Checked("key-size", keySize), Usage: "how many `bits` one of rsa has"},
					replaceFlag("upsert", "u"),
					&cli.BoolFlag{Name: "rotate", Usage: "keep what is there behind the new key: tokens that it has signed stay good"},
				),
				Before: shell.NoArguments,
				Action: createKey,
				Description: "Makes the key that signs the tokens in cluster Secrets, as the Secret argocd-agent-jwt of the\n" +
					"control plane, or as the file jwt.key. The principal reads it anew within seconds.\n\n" +
					"To replace a key with nothing interrupted: --rotate, then agent reconfigure --reissue-token for\n" +
					"every agent, then jwt delete-key --old. Self-registered agents are given another token by the\n" +
					"principal. A key that others may have is replaced at once by --upsert: no token is good then until\n" +
					"it is made anew.\n\n" +
					"   argocd-agentctl jwt create-key\n" +
					"   argocd-agentctl jwt create-key --rotate --key-algorithm ed25519",
			},
			{
				Name: "inspect-key", Usage: "show the keys, and nothing of them that is secret",
				Flags: append(vaultFlags(), outputFlag("table", "json", "yaml")), Before: shell.NoArguments, Action: inspectKey,
				Description: "The first signs. Tokens of all of them are good.\n\n   argocd-agentctl jwt inspect-key -o yaml",
			},
			{
				Name: "delete-key", Usage: "delete the key, so that no token is good any more",
				Flags: append(vaultFlags(),
					&cli.BoolFlag{Name: "old", Usage: "delete those behind the first only, which --rotate has kept"},
					&cli.BoolFlag{Name: "yes", Aliases: []string{"y", "force", "f"}, Usage: "do not ask"},
				),
				Before: shell.NoArguments, Action: deleteKey,
				Description: "   argocd-agentctl jwt delete-key --old\n   argocd-agentctl jwt delete-key --yes",
			},
		},
	}
}

func createKey(c *cli.Context) error {
	kind, err := shell.Choice(c, "key-algorithm", map[string]token.Kind{"rsa": token.RSA, "ecdsa": token.ECDSA, "ed25519": token.Ed25519})
	if err != nil {
		return err
	}
	bits := c.Int("key-size")
	switch {
	case c.Bool("upsert") && c.Bool("rotate"):
		return &shell.UsageError{Where: "--upsert, --rotate", What: "both are given", Advice: "give --rotate to keep tokens good that there are, --upsert to have none of them be"}
	case kind != token.RSA && c.IsSet("key-size"):
		return &shell.UsageError{Where: "--key-size", What: string(kind) + " keys have one size", Advice: "leave it out"}
	}
	k, err := openKeyring(c)
	if err != nil {
		return err
	}
	text, err := token.NewKey(kind, bits)
	if err != nil {
		return err
	}
	if c.Bool("rotate") {
		old, err := k.read(c.Context)
		if err != nil {
			return noKey(k, err)
		}
		if text, err = token.Rotate(text, old); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	err = k.write(c.Context, text, c.Bool("upsert") || c.Bool("rotate"))
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("control: %s is there already: --rotate puts another key before it, --upsert replaces it, after which tokens of it are not good any more", k)
	}
	if err != nil {
		return err
	}
	return saidKey(c, k, text)
}

// saidKey tells of a text that was written.
func saidKey(c *cli.Context, k keyring, text []byte) error {
	keys, err := token.ParseKeys(text)
	if err != nil {
		return err
	}
	more := ""
	if n := len(keys) - 1; n > 0 {
		more = fmt.Sprintf(", and %s before whose tokens stay good", shell.Count(n, "key"))
	}
	_, err = fmt.Fprintf(c.App.Writer, "wrote %s: %s%s\n", k, keys[0], more)
	return err
}

// noKey says what to do where there is no key.
func noKey(k keyring, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("control: there is no %s: argocd-agentctl jwt create-key makes one", k)
	}
	return err
}

// A keyRow is what may be told of a key.
type keyRow struct {
	Use         string `json:"use"` // signs, or verifies
	Algorithm   string `json:"algorithm"`
	Bits        int    `json:"bits"`
	Fingerprint string `json:"fingerprint"`
}

func inspectKey(c *cli.Context) error {
	show, err := formOf(c, map[string]form{"table": func(w io.Writer, v any) error {
		t := newTable(w, "USE", "ALGORITHM", "BITS", "FINGERPRINT")
		for _, r := range v.([]keyRow) {
			t.row(r.Use, r.Algorithm, r.Bits, r.Fingerprint)
		}
		return t.w.Flush()
	}})
	if err != nil {
		return err
	}
	_, _, keys, err := keysOf(c)
	if err != nil {
		return err
	}
	var rows []keyRow
	for i, k := range keys {
		use := "verifies"
		if i == 0 {
			use = "signs"
		}
		rows = append(rows, keyRow{use, k.Algorithm(), k.Size(), k.Fingerprint()})
	}
	return show(c.App.Writer, rows)
}

// keysOf returns the keys that there are, and where.
func keysOf(c *cli.Context) (keyring, []byte, token.Keys, error) {
	k, err := openKeyring(c)
	if err != nil {
		return nil, nil, nil, err
	}
	text, err := k.read(c.Context)
	if err != nil {
		return nil, nil, nil, noKey(k, err)
	}
	keys, err := token.ParseKeys(text)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", k, err)
	}
	return k, text, keys, nil
}

func deleteKey(c *cli.Context) error {
	if c.Bool("old") {
		return deleteOldKeys(c)
	}
	k, err := openKeyring(c)
	if err != nil {
		return err
	}
	if _, err := k.read(c.Context); err != nil {
		return noKey(k, err) // one that cannot be used can be deleted
	}
	if sure, err := confirmed(c, fmt.Sprintf("delete %s, so that Argo CD reaches no agent's cluster by a token any more?", k)); err != nil || !sure {
		return err
	}
	if err := k.remove(c.Context); err != nil {
		return noKey(k, err)
	}
	_, err = fmt.Fprintf(c.App.Writer, "deleted %s\n", k)
	return err
}

func deleteOldKeys(c *cli.Context) error {
	k, text, keys, err := keysOf(c)
	if err != nil {
		return err
	}
	if len(keys) == 1 {
		_, err := fmt.Fprintf(c.App.Writer, "%s has no old key\n", k)
		return err
	}
	if sure, err := confirmed(c, fmt.Sprintf("delete %s of %s, after which tokens that only they have signed are not good any more?", shell.Count(len(keys)-1, "old key"), k)); err != nil || !sure {
		return err
	}
	first, err := token.First(text)
	if err != nil {
		return err
	}
	if err := k.write(c.Context, first, true); err != nil {
		return err
	}
	return saidKey(c, k, first)
}

// keySize is the shell.Check of one of RSA.
func keySize(flag string, bits int) error {
	if bits < token.MinBits || bits > token.MaxBits {
		return &shell.UsageError{Where: "--" + flag, What: fmt.Sprintf("%d is no size of a key", bits), Advice: fmt.Sprintf("choose one from %d to %d", token.MinBits, token.MaxBits)}
	}
	return nil
}
