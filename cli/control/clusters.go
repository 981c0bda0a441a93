package control

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/cli/kube"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

// The names of Secrets.
const (
	secretCA        = "argocd-agent-ca"
	secretPrincipal = "argocd-agent-principal-tls"
	secretProxy     = "argocd-agent-resource-proxy-tls"
	secretAgent     = "argocd-agent-client-tls"
	secretTokens    = "argocd-agent-jwt"

	secretNATS          = natsServers
	secretNATSPrincipal = "argocd-agent-nats-principal"
	secretNATSOperator  = "argocd-agent-nats-operator"
)

func hubClusterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "kubeconfig", Usage: "a `file` that says how to reach clusters; empty is kubectl's"},
		env.String("principal-context", "", "", "the `context` in it of the control plane's cluster; empty is the current one"),
		env.String("principal-namespace", "", "argocd", "the `namespace` of Argo CD and the principal there"),
	}
}

func agentClusterFlags() []cli.Flag {
	return []cli.Flag{
		env.String("agent-context", "", "", "the `context` of the agent's cluster; empty is the current one"),
		env.String("agent-namespace", "", "argocd", "the `namespace` of Argo CD and the agent there"),
	}
}

// openSecrets returns the vault of the clusters that the command's flags name.
func openSecrets(c *cli.Context) (vault, error) {
	hub, err := secretsOf(c, "principal-context", "principal-namespace")
	return secretVault{hub}, err
}

func secretsOf(c *cli.Context, context, namespace string) (*kube.Secrets, error) {
	cfg, err := kube.ConnectBy(c, "kubeconfig", context)
	if err != nil {
		return nil, err
	}
	return kube.NewSecrets(cfg, c.String(namespace))
}

// A secretVault keeps the CA and the principal's certificates on the control plane, and an
// agent's on the agent's cluster.
type secretVault struct {
	hub *kube.Secrets
}

func (v secretVault) root(c *cli.Context) (pki.Pair, error) {
	data, err := v.hub.Get(c.Context, secretCA)
	return pki.Pair{Cert: data["tls.crt"], Key: data["tls.key"]}, err
}

func (v secretVault) find(c *cli.Context, agent string) (kept, error) {
	spoke, err := secretsOf(c, "agent-context", "agent-namespace")
	if err != nil {
		return kept{}, err
	}
	own, err := spoke.Get(c.Context, secretAgent)
	if err != nil {
		return kept{}, err
	}
	ca, err := spoke.Get(c.Context, secretCA)
	if err != nil {
		return kept{}, err
	}
	return kept{Pair: pki.Pair{Cert: own["tls.crt"], Key: own["tls.key"]}, CA: firstOf(ca["ca.crt"], ca["tls.crt"]), Where: "Secret " + secretAgent}, nil
}

// firstOf returns the first of texts that is not empty.
func firstOf(texts ...[]byte) []byte {
	for _, t := range texts {
		if len(t) > 0 {
			return t
		}
	}
	return nil
}

func (v secretVault) keep(c *cli.Context, i item, p pki.Pair, ca []byte, replace bool) error {
	where, name := v.hub, secretCA
	switch {
	case i.server != server{}:
		name = i.server.secret
	case i.agent != "":
		spoke, err := secretsOf(c, "agent-context", "agent-namespace")
		if err != nil {
			return err
		}
		if err := trust(c, spoke, ca, replace); err != nil {
			return err
		}
		where, name = spoke, secretAgent
	}
	return put(c, where, name, map[string][]byte{"tls.crt": p.Cert, "tls.key": p.Key}, replace)
}

// hint says what to do about a Secret that is there already.
func hint(err error) error {
	if errors.Is(err, kube.ErrThere) {
		return fmt.Errorf("%w; to replace it add %s", err, replaceHint)
	}
	return err
}

// trust keeps the CA's certificate on an agent's cluster, unless it is there: with its
// key, where that is the control plane's cluster too.
func trust(c *cli.Context, spoke *kube.Secrets, ca []byte, replace bool) error {
	data, err := spoke.Get(c.Context, secretCA)
	if err == nil && (bytes.Equal(data["ca.crt"], ca) || bytes.Equal(data["tls.crt"], ca)) {
		return nil
	}
	return put(c, spoke, secretCA, map[string][]byte{"ca.crt": ca}, replace)
}

// put keeps a Secret, and says so.
func put(c *cli.Context, where *kube.Secrets, name string, data map[string][]byte, replace bool) error {
	if err := where.Put(c.Context, name, data, replace); err != nil {
		return hint(err)
	}
	_, err := fmt.Fprintf(c.App.Writer, "wrote Secret %s\n", name)
	return err
}

// hubHome returns the namespace of Argo CD and the principal.
func hubHome(c *cli.Context) (*kubestore.Home, error) {
	cfg, err := kube.ConnectBy(c, "kubeconfig", "principal-context")
	if err != nil {
		return nil, err
	}
	return kubestore.NewHome(kubestore.HomeConfig{REST: cfg, Namespace: c.String("principal-namespace"), Log: zap.NewNop()})
}
