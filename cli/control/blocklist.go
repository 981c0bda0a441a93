package control

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/blockfile"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

const whoHelp = "NAME is an agent's, whatever its certificate; FINGERPRINT is the SHA-256 of a certificate, an agent's or\n" +
	"that of a CA between, in hexadecimal digits. In place of either, --cert names a file with the certificate."

func blocklistCommand() *cli.Command {
	cert := &cli.StringFlag{Name: "cert", Usage: "the certificate in this PEM `file`"}
	return &cli.Command{
		Name:  "blocklist",
		Usage: "say whom the principal does not let in, although the certificate is good",
		Subcommands: []*cli.Command{
			{
				Name: "add", Usage: "cut an agent or a certificate off, within a second", ArgsUsage: "NAME|FINGERPRINT",
				Flags: append(blocklistFlags(), cert, &cli.StringFlag{Name: "reason", Usage: "a `text` that says why, for the principal's log"}), Action: block,
				Description: whoHelp + "\n\n" +
					"   argocd-agentctl blocklist add edge-7 --reason 'the ship was sold'\n" +
					"   argocd-agentctl blocklist add --cert edge-7.crt",
			},
			{
				Name: "remove", Usage: "let an agent or a certificate in again", ArgsUsage: "NAME|FINGERPRINT",
				Flags: append(blocklistFlags(), cert), Action: unblock,
				Description: whoHelp + "\n\n   argocd-agentctl blocklist remove edge-7",
			},
			{
				Name: "list", Usage: "show who is not let in, and why",
				Flags: append(blocklistFlags(), outputFlag("table", "json", "yaml")), Before: shell.NoArguments, Action: listBlocked,
			},
		},
	}
}

func blocklistFlags() []cli.Flag {
	return append([]cli.Flag{env.String("blocklist-file", "", "", "keep the blocklist in this YAML `file`, not in a cluster")}, hubClusterFlags()...)
}

// A blocklist is where it is kept who is blocked, and why.
type blocklist interface {
	Blocked(ctx context.Context) (map[string]string, error)
	Block(ctx context.Context, change func(map[string]string) error) error
}

func openBlocklist(c *cli.Context) (blocklist, error) {
	if file := c.String("blocklist-file"); file != "" {
		return blockfile.File(file), nil
	}
	return hubHome(c)
}

func block(c *cli.Context) error {
	return changeBlocklist(c, "blocked", func(who string, is map[string]string) error {
		if _, there := is[who]; there {
			return fmt.Errorf("%s is on the blocklist already", who)
		}
		is[who] = c.String("reason")
		return nil
	})
}

func unblock(c *cli.Context) error {
	return changeBlocklist(c, "unblocked", func(who string, is map[string]string) error {
		before := len(is)
		maps.DeleteFunc(is, func(entry, _ string) bool { // people may have written it otherwise
			form, err := identity.BlockEntry(entry)
			return err == nil && form == who
		})
		if len(is) == before {
			return fmt.Errorf("%s is not on the blocklist: argocd-agentctl blocklist list shows who is", who)
		}
		return nil
	})
}

func changeBlocklist(c *cli.Context, did string, change func(who string, is map[string]string) error) error {
	who, err := blockEntry(c)
	if err != nil {
		return err
	}
	list, err := openBlocklist(c)
	if err != nil {
		return err
	}
	if err := list.Block(c.Context, func(is map[string]string) error { return change(who, is) }); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s %s\n", did, who)
	return err
}

// blockEntry returns whom the command line means.
func blockEntry(c *cli.Context) (string, error) {
	file := c.String("cert")
	if file == "" {
		who, err := shell.Argument(c, "an agent's name, a fingerprint or --cert")
		if err == nil {
			who, err = identity.BlockEntry(who)
		}
		if usage := (*shell.UsageError)(nil); err != nil && !errors.As(err, &usage) {
			err = &shell.UsageError{Where: "blocklist " + c.Command.Name, What: err.Error(), Advice: "see --help"}
		}
		return who, err
	}
	if len(shell.Arguments(c)) > 0 {
		return "", &shell.UsageError{Where: "blocklist " + c.Command.Name, What: "an argument and --cert are given", Advice: "give one of them"}
	}
	text, err := os.ReadFile(file)
	if err == nil {
		first, _ := pem.Decode(text)
		if first == nil {
			return "", &shell.UsageError{Where: "--cert", What: file + " holds no PEM certificate", Advice: "name the file with the certificate that is meant"}
		}
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(first.Bytes); err == nil {
			return identity.Fingerprint(cert), nil
		}
	}
	return "", &shell.UsageError{Where: "--cert", What: err.Error(), Advice: "name the file with the certificate that is meant"}
}

// A blocked row is who is blocked, and why.
type blocked struct {
	Who    string `json:"who"`
	Reason string `json:"reason"`
}

func listBlocked(c *cli.Context) error {
	show, err := formOf(c, map[string]form{"table": blockedTable})
	if err != nil {
		return err
	}
	list, err := openBlocklist(c)
	if err != nil {
		return err
	}
	is, err := list.Blocked(c.Context)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	rows := []blocked{}
	for _, who := range slices.Sorted(maps.Keys(is)) {
		rows = append(rows, blocked{who, is[who]})
	}
	return show(c.App.Writer, rows)
}

func blockedTable(w io.Writer, v any) error {
	t := newTable(w, "BLOCKED", "REASON")
	for _, b := range v.([]blocked) {
		t.row(b.Who, b.Reason)
	}
	return t.w.Flush()
}
