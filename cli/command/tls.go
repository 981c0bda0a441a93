package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/workload"
)

// renewEvery is how often certificate, key and CA are read anew.
const renewEvery = 10 * time.Second

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

// termsOf returns what methods need to be told beside --auth or --creds.
func termsOf(c *cli.Context) (t identity.Terms, err error) {
	if t.Proxies, err = identity.ParseProxies(c.String("trusted-proxy-cidr")); err != nil {
		return t, &shell.UsageError{Where: "--trusted-proxy-cidr", What: err.Error(), Advice: "write where the proxies are, such as 10.0.0.0/8,fd00::/8"}
	}
	if t.Workload, err = workload.Source(c.String("spiffe-endpoint-socket")); err != nil {
		return t, &shell.UsageError{Where: "--spiffe-endpoint-socket", What: err.Error(), Advice: "write one such as unix:///run/spire/sockets/agent.sock"}
	}
	return t, nil
}

// authOf returns how agents prove their names to a principal.
func authOf(c *cli.Context) (identity.Method, error) {
	t, err := termsOf(c)
	if err != nil {
		return identity.Method{}, err
	}
	m, err := identity.ParseMethod(c.String("auth"), t)
	if err != nil {
		return m, &shell.UsageError{Where: "--auth", What: err.Error(), Advice: "write one such as mtls:uri:spiffe://example[.]com/agent/(.+)"}
	}
	return m, nil
}

// credsOf returns what makes the source of an agent's credentials.
func credsOf(c *cli.Context) (func(identity.Kept) identity.Source, error) {
	t, err := termsOf(c)
	if err != nil {
		return nil, err
	}
	source, err := identity.ParseOwn(c.String("creds"), t)
	if err != nil {
		return nil, &shell.UsageError{Where: "--creds", What: err.Error(), Advice: "write one such as userpass:edge-1.creds, or leave it out where the agent has a certificate"}
	}
	return source, nil
}

// agentName returns the name that an agent goes by: what it is told, or the common name of
// its certificate.
func agentName(c *cli.Context, own *identity.Credentials) string {
	return cmp.Or(c.String("agent-name"), own.Name())
}

// checkAgentName finds out whether the principal will know the agent by that name, as far as
// the certificate tells.
func checkAgentName(c *cli.Context, own *identity.Credentials) error {
	name := agentName(c, own)
	err := identity.CheckName(name)
	if err == nil {
		err = own.Claims(name)
	}
	if err != nil {
		return &shell.UsageError{Where: "--agent-name", What: err.Error(), Advice: "leave it out where the certificate has the name, or use that agent's certificate"}
	}
	return nil
}

// open reads what a side's credentials are made of, and returns what keeps them what they are
// where they are kept.
func (f tlsFlags) open(c *cli.Context, s secrets, source func(identity.Kept) identity.Source, log *zap.Logger) (identity.Renewal, error) {
	read, err := f.reader(c, s, source)
	if err != nil {
		return identity.Renewal{}, err
	}
	b, err := read(c.Context)
	if err != nil {
		return identity.Renewal{}, err
	}
	own, err := identity.NewCredentials(b, time.Now())
	if err != nil {
		return identity.Renewal{}, err
	}
	return identity.Renewal{Credentials: own, Read: read, Every: renewEvery, Log: log}, nil
}

// reader returns what reads what a side's credentials are made of.
func (f tlsFlags) reader(c *cli.Context, s secrets, source func(identity.Kept) identity.Source) (identity.Source, error) {
	kept, err := f.kept(c, s)
	if err != nil {
		return nil, err
	}
	return source(kept), nil
}

// kept returns what reads certificate, key and CA.
func (f tlsFlags) kept(c *cli.Context, s secrets) (identity.Kept, error) {
	files := identity.Files{Cert: c.String(f.cert), Key: c.String(f.key), CA: c.String(f.ca)}
	if (files.Cert == "") != (files.Key == "") {
		return identity.Kept{}, &shell.UsageError{Where: "--" + f.cert + ", --" + f.key, What: "only one of them is given", Advice: "give both, or none"}
	}
	pair := c.String(f.pair)
	cert := text{"certificate", f.cert, files.Cert, pair, []string{"tls.crt"}}
	key := text{"key", f.key, files.Key, pair, []string{"tls.key"}}
	// The hub's Secret is that of the CA itself, an agent's holds the CA's certificate only.
	ca := text{"CA", f.ca, files.CA, c.String(f.caSecret), []string{"ca.crt", "tls.crt"}}
	return identity.Kept{
		CA: func(ctx context.Context) (identity.Text, error) { return ca.read(ctx, s) },
		Pair: func(ctx context.Context) (own, secret identity.Text, err error) {
			if own, err = cert.read(ctx, s); err == nil {
				secret, err = key.read(ctx, s)
			}
			return own, secret, err
		},
	}, nil
}

// A text is one of the three, and where it is: in a file that a flag names, or else in a Secret
// under the first of keys that this has.
type text struct {
	what, flag   string
	file, secret string
	keys         []string
}

func (t text) read(ctx context.Context, s secrets) (identity.Text, error) {
	if t.file != "" {
		return identity.ReadFile(t.what, t.file)
	}
	fail := func(err error) (identity.Text, error) { return identity.Text{}, err }
	data, err := s(ctx, t.secret)
	if usage := (*shell.UsageError)(nil); errors.As(err, &usage) {
		return fail(err)
	}
	if err != nil {
		return fail(fmt.Errorf("%w; name a file by --%s, or make it: argocd-agentctl pki --help", err, t.flag))
	}
	i := slices.IndexFunc(t.keys, func(k string) bool { return len(data[k]) > 0 })
	if i < 0 {
		return fail(fmt.Errorf("command: load certificates: Secret %s has no %s, but %q", t.secret, t.keys[0], slices.Sorted(maps.Keys(data))))
	}
	return identity.Text{Where: fmt.Sprintf("Secret %s, %s", t.secret, t.keys[i]), PEM: data[t.keys[i]]}, nil
}
