package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/cli/kube"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/proxy/token"
)

// tokenFlags are those of commands that write how Argo CD reaches an agent's cluster.
func tokenFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "resource-proxy-ca-path", Usage: "a `file` with the CA of the certificate that Argo CD sees there; empty is that of the Secret argocd-agent-ca"},
	}
}

// tokens make how Argo CD reaches the agents' clusters, from what is on the control plane's.
type tokens struct{ hub *kube.Secrets }

func openTokens(c *cli.Context) (tokens, error) {
	hub, err := secretsOf(c, "principal-context", "principal-namespace")
	return tokens{hub}, err
}

// connect makes the Connection of an agent, and the key of tokens if there is none; by a flag it
// is none.
func (t tokens) connect(c *cli.Context, agent string) (kubestore.Connection, error) {
	if c.Bool("without-token") {
		return kubestore.Connection{}, nil
	}
	ca, err := t.ca(c)
	if err != nil {
		return kubestore.Connection{}, err
	}
	keys, err := t.keys(c)
	if err != nil {
		return kubestore.Connection{}, err
	}
	text, err := keys.Issue(agent, time.Now())
	return kubestore.Connection{Token: text, CA: ca}, err
}

// ca returns the CA of the resource proxy's certificate; none, and says so, if nobody has made
// one here.
func (t tokens) ca(c *cli.Context) ([]byte, error) {
	if file := c.String("resource-proxy-ca-path"); file != "" {
		text, err := os.ReadFile(file)
		if err == nil {
			_, err = firstCertificate(file, text)
		}
		if err != nil {
			return nil, &shell.UsageError{Where: "--resource-proxy-ca-path", What: err.Error(), Advice: "name a file with certificates as PEM"}
		}
		return text, nil
	}
	data, err := t.hub.Get(c.Context, secretCA)
	if kube.Missing(err) {
		_, err = fmt.Fprintf(c.App.ErrWriter, "there is no Secret %s: Argo CD will know the resource proxy by the CAs of its system; name another by --resource-proxy-ca-path\n", secretCA)
		return nil, err
	}
	return firstOf(data["ca.crt"], data["tls.crt"]), err
}

// keys returns the keys of tokens, which are made if there are none.
func (t tokens) keys(c *cli.Context) (token.Keys, error) {
	k := keySecret{t.hub}
	for {
		text, err := k.read(c.Context)
		switch {
		case err == nil:
			keys, err := token.ParseKeys(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w; argocd-agentctl jwt create-key --upsert makes another key, and --without-token does without", k, err)
			}
			return keys, nil
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%w; --without-token does without a key", err)
		}
		if text, err = token.NewKey(token.RSA, token.DefaultBits); err != nil {
			return nil, err
		}
		switch err := k.write(c.Context, text, false); {
		case errors.Is(err, fs.ErrExist): // whoever was faster has made it: look again
		case err != nil:
			return nil, fmt.Errorf("%w; --without-token does without a key", err)
		default:
			if err := saidKey(c, k, text); err != nil {
				return nil, err
			}
		}
	}
}

// describe says by what Argo CD is let to an agent's cluster, and what is wrong with it as far
// as that can be seen.
func (t tokens) describe(ctx context.Context, r kubestore.Registration) string {
	said := r.Connection.String()
	if !r.Connection.Proves() {
		return said + ": argocd-agentctl agent reconfigure " + r.Name + " --reissue-token makes one"
	}
	if r.Connection.Token == "" {
		return said
	}
	text, err := keySecret{t.hub}.read(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return said // who may not see the key cannot tell
	}
	keys, _ := token.ParseKeys(text) // no key has signed any token
	agent, err := keys.Verify(r.Connection.Token, time.Now())
	switch {
	case err != nil:
		return said + " that is not good: no key that is there has signed it"
	case agent != r.Name:
		return said + " that is of agent " + agent
	case !keys.Current(r.Connection.Token, r.Name, time.Now()):
		return said + " of a key before the one that signs now"
	}
	return said
}
