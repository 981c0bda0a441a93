package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/kube"
	"github.com/argocd-fabric/argocd-agent/cli/livefile"
	"github.com/argocd-fabric/argocd-agent/cli/natskeys"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

func natsCommand() *cli.Command {
	return &cli.Command{
		Name:  "nats",
		Usage: "set up a cluster of NATS servers that carries what principal and agents say",
		Subcommands: []*cli.Command{{
			Name:  "init",
			Usage: "make the keys and certificates of the servers, and of the principal that uses them",
			Flags: append(vaultFlags(),
				&cli.StringSliceFlag{Name: "dns", Action: shell.Checked("dns", shell.EachGiven), Usage: "a `name` by which agents reach the servers; may be repeated"},
				&cli.StringSliceFlag{Name: "ip", Action: shell.Checked("ip", shell.EachGiven), Usage: "an `address` by which agents reach the servers; may be repeated"},
				daysFlag(180), keyFlag(),
				&cli.BoolFlag{Name: "operator", Usage: "for servers in operator mode: make an operator, its accounts, and creds"},
				&cli.BoolFlag{Name: "renew", Usage: "issue the certificates anew, for the keys that they have"},
			),
			Before: shell.NoArguments,
			Action: initNATS,
			Description: "Makes what the configuration in deploy/nats includes, as the Secret argocd-agent-nats of the\n" +
				"control plane, and what the principal needs to use the servers, as argocd-agent-nats-principal; or\n" +
				"as files in nats and nats/principal. What is there already stays: it can be run again. With --renew\n" +
				"certificates are issued anew for the same keys, of the CA as it is now, and for more names and\n" +
				"addresses; then restart the servers one by one. The certificates are signed by the agents' CA, and the servers' holds for the names\n" +
				"in deploy/nats beside those given.\n\n" +
				"With --operator the servers are in operator mode: accounts.conf, which takes the place of the one in\n" +
				"deploy/nats, has the JWTs of an operator and its accounts, the principal is given creds, and the\n" +
				"operator's own keys go to the Secret argocd-agent-nats-operator, or to nats/operator, where no\n" +
				"program reads them.\n\n" +
				"   argocd-agentctl nats init --dns nats.example.com\n" +
				"   argocd-agentctl nats init --dir ./pki --ip 192.0.2.7",
		}},
	}
}

// natsServers are the Service of the servers in deploy/nats, and they themselves.
const natsServers = "argocd-agent-nats"

// natsHosts returns the names and addresses of the servers.
func natsHosts(c *cli.Context) ([]string, error) {
	hosts, err := hostsGiven(c)
	if err != nil {
		return nil, err
	}
	inside := natsServers + "." + c.String("principal-namespace")
	hosts = append(hosts, natsServers, inside, inside+".svc", inside+".svc.cluster.local")
	for i := range 3 {
		hosts = append(hosts, fmt.Sprintf("%s-%d.%s", natsServers, i, natsServers))
	}
	return hosts, nil
}

func initNATS(c *cli.Context) error {
	o, err := options(c)
	if err != nil {
		return err
	}
	hosts, err := natsHosts(c)
	if err != nil {
		return err
	}
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
	return keepNATS(c, natskeys.Request{CA: ca, Hosts: hosts, Options: o, Renew: c.Bool("renew"), Operator: c.Bool("operator")})
}

// keepNATS makes what is asked for and is not there.
func keepNATS(c *cli.Context, r natskeys.Request) error {
	places, err := natsPlaces(c)
	if err != nil {
		return err
	}
	var have natskeys.Set
	for _, p := range places {
		if *p.files(&have), err = p.read(c.Context); err != nil {
			return err
		}
	}
	all, err := natskeys.Complete(have, r)
	if err != nil {
		return fmt.Errorf("control: %w", err)
	}
	for _, p := range places {
		if len(*p.files(&all)) == 0 {
			continue // of an operator that there is not
		}
		if err := keepFiles(c, p, *p.files(&have), *p.files(&all)); err != nil {
			return err
		}
	}
	return nil
}

// keepFiles writes what is new, and says so.
func keepFiles(c *cli.Context, p filePlace, have, all map[string][]byte) error {
	if maps.EqualFunc(have, all, bytes.Equal) {
		_, err := fmt.Fprintf(c.App.Writer, "%s has all that is needed\n", p)
		return err
	}
	if err := p.write(c.Context, have, all); err != nil {
		return err
	}
	var wrote []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !bytes.Equal(have[name], all[name]) {
			wrote = append(wrote, name)
		}
	}
	_, err := fmt.Fprintf(c.App.Writer, "wrote %s: %v\n", p, wrote)
	return err
}

// A filePlace keeps files, by their names.
type filePlace interface {
	// String says where it is.
	fmt.Stringer
	// read returns those that are there.
	read(context.Context) (map[string][]byte, error)
	// write keeps all of them, of which it has some.
	write(_ context.Context, have, all map[string][]byte) error
}

// A natsPlace keeps a part of a natskeys.Set.
type natsPlace struct {
	filePlace
	files func(*natskeys.Set) *map[string][]byte
}

// natsPlaces returns where the parts are kept. What cannot be made of anything else comes first.
func natsPlaces(c *cli.Context) ([]natsPlace, error) {
	operator := func(s *natskeys.Set) *map[string][]byte { return &s.Operator }
	principal := func(s *natskeys.Set) *map[string][]byte { return &s.Principal }
	servers := func(s *natskeys.Set) *map[string][]byte { return &s.Servers }
	if dir := c.String("dir"); dir != "" {
		dir = filepath.Join(dir, "nats")
		return []natsPlace{{directory(filepath.Join(dir, "operator")), operator}, {directory(filepath.Join(dir, "principal")), principal}, {directory(dir), servers}}, nil
	}
	hub, err := secretsOf(c, "principal-context", "principal-namespace")
	return []natsPlace{{secretFiles{hub, secretNATSOperator}, operator}, {secretFiles{hub, secretNATSPrincipal}, principal}, {secretFiles{hub, secretNATS}, servers}}, err
}

// A directory is a filePlace in files.
type directory string

func (d directory) String() string { return string(d) }

func (d directory) read(context.Context) (map[string][]byte, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("control: read keys: %w", err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(string(d), e.Name())); err != nil {
			return nil, fmt.Errorf("control: read keys: %w", err)
		}
	}
	return files, nil
}

func (d directory) write(_ context.Context, have, all map[string][]byte) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("control: keep keys: %w", err)
	}
	for name, text := range all {
		if bytes.Equal(have[name], text) {
			continue
		}
		write := livefile.Replace
		if have[name] == nil {
			write = func(path string, text []byte) error { return create(path, text, 0o600) }
		}
		if err := write(filepath.Join(string(d), name), text); err != nil {
			return fmt.Errorf("control: keep keys: %w", err)
		}
	}
	return nil
}

// secretFiles are a filePlace in a Secret of the control plane's cluster.
type secretFiles struct {
	secrets *kube.Secrets
	name    string
}

func (s secretFiles) String() string { return "Secret " + s.name }

func (s secretFiles) read(ctx context.Context) (map[string][]byte, error) {
	data, err := s.secrets.Get(ctx, s.name)
	if kube.Missing(err) {
		return nil, nil
	}
	return data, err
}

func (s secretFiles) write(ctx context.Context, have, all map[string][]byte) error {
	return s.secrets.Put(ctx, s.name, all, len(have) > 0)
}
