package control

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show everything that is known of an agent",
		ArgsUsage: "NAME",
		Flags:     together(principalFlags(outputFlag("yaml", "json")), rosterFlags(), vaultFlags(), agentClusterFlags(), blocklistFlags()),
		Action:    inspect,
		Description: "Shows how the agent is registered, its certificate, whether it is on the blocklist and, if the\n" +
			"principal can be asked, how both sides stand, the names of the deletions that are held, and the\n" +
			"dead letters. What cannot be found out is under \"unknown\", with the reason: an agent's certificate\n" +
			"is where it runs, and has to be named.\n\n" +
			"   argocd-agentctl agent inspect edge-1\n" +
			"   argocd-agentctl agent inspect edge-1 --agent-context edge-1\n" +
			"   argocd-agentctl agent inspect edge-1 --agents-file ./agents.yaml --dir ./pki" + askHelp,
	}
}

// An inspection is everything that is known of an agent.
type inspection struct {
	*admin.Agent                   // nil: the principal could not be asked
	Registration *registration     `json:"registration,omitempty"`
	Certificate  *certificate      `json:"certificate,omitempty"`
	Blocked      map[string]string `json:"blocked"` // what of it is on the blocklist, and why; null if that is not known
	Letters      []admin.Letter    `json:"letters"` // null if the principal could not be asked
	Unread       map[string]string `json:"unread,omitempty"`
	Unknown      map[string]string `json:"unknown,omitempty"` // what could not be found out, and why
}

func inspect(c *cli.Context) error {
	show, err := formOf(c, nil)
	if err != nil {
		return err
	}
	name, err := shell.Argument(c, "the agent's name")
	if err != nil {
		return err
	}
	is := inspection{Unknown: map[string]string{}}
	if err := is.known(c, name); err != nil {
		return err
	}
	cert := is.certified(c, name)
	is.blocked(c, name, cert)
	return show(c.App.Writer, is)
}

// known fills in what the registry and the principal know. It fails if neither knows the
// agent.
func (is *inspection) known(c *cli.Context, name string) error {
	r, unregistered := openRoster(c)
	if unregistered == nil {
		var found registration
		if found, unregistered = r.find(c.Context, name); unregistered == nil {
			is.Registration = &found
		}
	}
	unasked := is.ask(c, name)
	usage, failed := (*shell.UsageError)(nil), (*admin.Failed)(nil)
	switch {
	case errors.As(unasked, &usage):
		return unasked
	case unregistered == nil, unasked == nil:
	case errors.As(unasked, &failed):
		return unasked
	case errors.Is(unregistered, fs.ErrNotExist):
		return unknown(name, unregistered)
	default:
		return unasked
	}
	for what, err := range map[string]error{"registration": unregistered, "principal": unasked} {
		if err != nil {
			is.Unknown[what] = err.Error()
		}
	}
	return nil
}

// ask fills in how the agent stands.
func (is *inspection) ask(c *cli.Context, name string) error {
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	a, err := p.Agent(c.Context, name)
	if err != nil {
		return asked(c, err)
	}
	letters, err := p.Letters(c.Context, name)
	if err != nil {
		return asked(c, err)
	}
	is.Agent, is.Letters, is.Unread = &a, letters.Letters, letters.Unread
	return nil
}

// certified fills in the agent's certificate, and returns it; nil if it could not be read.
func (is *inspection) certified(c *cli.Context, name string) *x509.Certificate {
	k, cert, err := certificateOf(c, name)
	if err != nil {
		is.Unknown["certificate"] = err.Error()
		return nil
	}
	d := describe(k.Where, cert, time.Now())
	is.Certificate = &d
	return cert
}

// blocked fills in what of the agent is on the blocklist: its name or its certificate.
func (is *inspection) blocked(c *cli.Context, name string, cert *x509.Certificate) {
	list, err := openBlocklist(c)
	var reasons map[string]string
	if err == nil {
		reasons, err = list.Blocked(c.Context)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		is.Unknown["blocked"] = err.Error()
		return
	}
	all, _ := identity.NewBlocklist(reasons) // what is neither a name nor a fingerprint is nobody's
	entries := []string{name}
	if cert != nil {
		entries = append(entries, identity.Fingerprint(cert))
	}
	is.Blocked = map[string]string{}
	for _, entry := range entries {
		if why, on := all[entry]; on {
			is.Blocked[entry] = why
		}
	}
}
