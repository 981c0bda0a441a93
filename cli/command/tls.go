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

// authOf returns how agents prove their names to a principal.
func authOf(c *cli.Context) (identity.Method, error) {
	m, err := identity.ParseMethod(c.String("auth"))
	if err != nil {
		return nil, &shell.UsageError{Where: "--auth", What: err.Error(), Advice: "write one such as mtls:uri:spiffe://example[.]com/agent/(.+)"}
	}
	return m, nil
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

// open reads certificate, key and CA, and returns what keeps them what they are where they
// are kept.
func (f tlsFlags) open(c *cli.Context, s secrets, log *zap.Logger) (identity.Renewal, error) {
	read, err := f.reader(c, s)
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

// reader returns what reads them.
func (f tlsFlags) reader(c *cli.Context, s secrets) (func(context.Context) (identity.Bundle, error), error) {
	files := identity.Files{Cert: c.String(f.cert), Key: c.String(f.key), CA: c.String(f.ca)}
	if (files.Cert == "") != (files.Key == "") {
		return nil, &shell.UsageError{Where: "--" + f.cert + ", --" + f.key, What: "only one of them is given", Advice: "give both, or none"}
	}
	pair, ca := c.String(f.pair), c.String(f.caSecret)
	return func(ctx context.Context) (b identity.Bundle, err error) {
		texts := []text{{&b.Cert, "certificate", files.Cert, pair, []string{"tls.crt"}}, {&b.Key, "key", files.Key, pair, []string{"tls.key"}},
			// The hub's Secret is that of the CA itself, an agent's holds the CA's certificate only.
			{&b.CA, "CA", files.CA, ca, []string{"ca.crt", "tls.crt"}}}
		for _, t := range texts {
			if err := t.read(ctx, s); err != nil {
				return identity.Bundle{}, err
			}
		}
		return b, nil
	}, nil
}

// A text is one of the three, and where it is: in a file, or else in a Secret under the first
// of keys that this has.
type text struct {
	to           *identity.Text
	what         string
	file, secret string
	keys         []string
}

func (t text) read(ctx context.Context, s secrets) (err error) {
	if t.file != "" {
		*t.to, err = identity.ReadFile(t.what, t.file)
		return err
	}
	data, err := s(ctx, t.secret)
	if usage := (*shell.UsageError)(nil); errors.As(err, &usage) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w; name files, or make it: argocd-agentctl pki issue --help", err)
	}
	i := slices.IndexFunc(t.keys, func(k string) bool { return len(data[k]) > 0 })
	if i < 0 {
		return fmt.Errorf("command: load certificates: Secret %s has no %s, but %q", t.secret, t.keys[0], slices.Sorted(maps.Keys(data)))
	}
	*t.to = identity.Text{Where: fmt.Sprintf("Secret %s, %s", t.secret, t.keys[i]), PEM: data[t.keys[i]]}
	return nil
}
