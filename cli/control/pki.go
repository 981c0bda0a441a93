package control

import (
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

const day = 24 * time.Hour

func pkiCommand() *cli.Command {
	return &cli.Command{
		Name:  "pki",
		Usage: "make the certificates with which principal and agents know each other",
		Subcommands: []*cli.Command{
			{
				Name:   "init",
				Usage:  "make a CA",
				Flags:  append(vaultFlags(), daysFlag(3650), keyFlag(), replaceFlag("force", "f")),
				Before: shell.NoArguments,
				Action: initPKI,
				Description: "Makes the CA that signs all other certificates, as the Secret argocd-agent-ca of the\n" +
					"control plane, or as files.\n\n" +
					"   argocd-agentctl pki init\n" +
					"   argocd-agentctl pki init --dir ./pki",
			},
			{
				Name:  "issue",
				Usage: "make a certificate that the CA signs",
				Subcommands: []*cli.Command{
					{
						Name:   "principal",
						Usage:  "make the principal's",
						Flags:  append(vaultFlags(), dnsFlag(), ipFlag(), daysFlag(180), keyFlag(), replaceFlag("upsert", "u")),
						Before: shell.NoArguments,
						Action: issuePrincipal,
						Description: "Makes the principal's certificate, as the Secret argocd-agent-principal-tls of the\n" +
							"control plane, or as files. It holds for the names by which agents reach the principal.\n\n" +
							"   argocd-agentctl pki issue principal --dns hub.example.com --ip 192.0.2.7",
					},
					{
						Name:   "resource-proxy",
						Usage:  "make that of the principal's resource proxy",
						Flags:  append(vaultFlags(), dnsFlag(), ipFlag(), daysFlag(180), keyFlag(), replaceFlag("upsert", "u")),
						Before: shell.NoArguments,
						Action: issueProxy,
						Description: "Makes the certificate by which the hub's Argo CD knows the principal where it reaches the\n" +
							"agents' clusters, as the Secret argocd-agent-resource-proxy-tls of the control plane, or as\n" +
							"files. Unless others are given it holds for the names of the Service argocd-agent-resource-proxy.\n\n" +
							"   argocd-agentctl pki issue resource-proxy\n" +
							"   argocd-agentctl pki issue resource-proxy --dns proxy.example.com --upsert",
					},
					{
						Name:      "agent",
						Usage:     "make an agent's",
						ArgsUsage: "NAME",
						Flags:     append(append(vaultFlags(), agentClusterFlags()...), daysFlag(180), keyFlag(), uriFlag(), replaceFlag("upsert", "u")),
						Action:    issueAgent,
						Description: "Makes the certificate by which the principal knows the agent NAME, as the Secret\n" +
							"argocd-agent-client-tls of the agent's cluster, with the CA's own certificate beside it in\n" +
							"argocd-agent-ca, or as files.\n\n" +
							"   argocd-agentctl pki issue agent edge-1 --agent-context edge-1\n" +
							"   argocd-agentctl pki issue agent edge-1 --dir ./pki",
					},
				},
			},
		},
	}
}

func daysFlag(days int) cli.Flag {
	return &cli.IntFlag{Name: "days", Value: days, Action: shell.Checked("days", shell.From(1, 100*365, "write for how long it is to be valid")), Usage: "how many `days` the certificate is valid"}
}

func keyFlag() cli.Flag {
	return &cli.StringFlag{Name: "key-algorithm", Aliases: []string{"key-type"}, Value: string(pki.ECDSA), Usage: "the `algorithm` of the key: ecdsa, ed25519 or rsa"}
}

func uriFlag() cli.Flag {
	return &cli.StringFlag{Name: "uri", Usage: "a `URI` that the certificate names as well, such as a SPIFFE ID, for a principal with --auth mtls:uri:…"}
}

func replaceFlag(name, alias string) cli.Flag {
	return &cli.BoolFlag{Name: name, Aliases: []string{alias}, Usage: "replace what is there already"}
}

func dnsFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "dns", Action: shell.Checked("dns", shell.EachGiven), Usage: "a `name` by which the principal is reached; may be repeated"}
}

func ipFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "ip", Action: shell.Checked("ip", shell.EachGiven), Usage: "an `address` by which the principal is reached; may be repeated"}
}

// options returns how a certificate is to be made.
func options(c *cli.Context) (pki.Options, error) {
	key, err := shell.Choice(c, "key-algorithm", map[string]pki.KeyType{"ecdsa": pki.ECDSA, "ed25519": pki.Ed25519, "rsa": pki.RSA})
	if err != nil {
		return pki.Options{}, err
	}
	days := c.Int("days")
	return pki.Options{Now: time.Now(), Lifetime: time.Duration(days) * day, KeyType: key}, nil
}

func initPKI(c *cli.Context) error {
	o, err := options(c)
	if err != nil {
		return err
	}
	v, err := openVault(c)
	if err != nil {
		return err
	}
	ca, err := pki.NewCA("argocd-agent CA", o)
	if err != nil {
		return err
	}
	return v.keep(c, item{}, ca.Pair(), nil, c.Bool("force"))
}

func issuePrincipal(c *cli.Context) error {
	if len(c.StringSlice("dns"))+len(c.StringSlice("ip")) == 0 {
		return &shell.UsageError{Where: "--dns, --ip", What: "neither is given", Advice: "say by which names or addresses agents reach the principal"}
	}
	return issueServer(c, forAgents, "argocd-agent principal", nil)
}

func issueProxy(c *cli.Context) error {
	const service = "argocd-agent-resource-proxy"
	inside := service + "." + c.String("principal-namespace")
	return issueServer(c, forArgoCD, service, []string{service, inside, inside + ".svc", inside + ".svc.cluster.local"})
}

// issueServer makes the certificate of a server, for the names and addresses that flags give or,
// if there are none, for hosts.
func issueServer(c *cli.Context, s server, name string, hosts []string) error {
	o, err := options(c)
	if err != nil {
		return err
	}
	given, err := hostsGiven(c)
	if err != nil {
		return err
	}
	if len(given) > 0 {
		hosts = given
	}
	return issue(c, item{server: s}, c.Bool("upsert"), func(ca *pki.CA) (pki.Pair, error) { return ca.IssueServer(name, hosts, o) })
}

// hostsGiven returns the names and addresses that flags give.
func hostsGiven(c *cli.Context) ([]string, error) {
	for _, ip := range c.StringSlice("ip") {
		if net.ParseIP(ip) == nil {
			return nil, &shell.UsageError{Where: "--ip", What: fmt.Sprintf("%q is no address", ip), Advice: "give names by --dns"}
		}
	}
	for _, name := range c.StringSlice("dns") {
		if err := pki.CheckHost(name); err != nil {
			return nil, &shell.UsageError{Where: "--dns", What: err.Error(), Advice: "write a name such as hub.example.com, without a port; in letters beyond ASCII, its punycode"}
		}
	}
	return append(c.StringSlice("dns"), c.StringSlice("ip")...), nil
}

func issueAgent(c *cli.Context) error {
	name, err := shell.Argument(c, "the agent's name")
	if err != nil {
		return err
	}
	return issueFor(c, name, c.Bool("upsert"))
}

// issueFor makes an agent's certificate.
func issueFor(c *cli.Context, name string, replace bool) error {
	if err := identity.CheckName(name); err != nil {
		return &shell.UsageError{Where: "pki issue agent", What: err.Error(), Advice: "choose another name"}
	}
	o, err := options(c)
	if err != nil {
		return err
	}
	if text := c.String("uri"); text != "" {
		if o.URI, err = url.Parse(text); err != nil || o.URI.Scheme == "" {
			return &shell.UsageError{Where: "--uri", What: fmt.Sprintf("%q is no URI", text), Advice: "write one such as spiffe://example.com/agent/edge-1"}
		}
	}
	return issue(c, item{agent: name}, replace, func(ca *pki.CA) (pki.Pair, error) { return ca.IssueAgent(name, o) })
}

// issue makes the certificate of i with the vault's CA, and keeps it.
func issue(c *cli.Context, i item, replace bool, make func(*pki.CA) (pki.Pair, error)) error {
	v, err := openVault(c)
	if err != nil {
		return err
	}
	root, err := v.root(c)
	if err != nil {
		return fmt.Errorf("%w; make a CA first: argocd-agentctl pki init", err)
	}
	ca, err := pki.LoadCA(root)
	if err != nil {
		return err
	}
	pair, err := make(ca)
	if err != nil {
		return err
	}
	return v.keep(c, i, pair, root.Cert, replace)
}
