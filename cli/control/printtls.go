package control

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

func printTLSCommand() *cli.Command {
	return &cli.Command{
		Name:      "print-tls",
		Usage:     "print an agent's certificate, its key, and the CA that it trusts",
		ArgsUsage: "NAME",
		Flags:     together(vaultFlags(), agentClusterFlags(), []cli.Flag{outputFlag("pem", "yaml")}),
		Action:    printTLS,
		Description: "Prints them as PEM, the certificate first and the CA last, or as the Secrets in which an agent\n" +
			"looks for them, to be applied on its cluster. The key is a secret: whoever has it is the agent.\n\n" +
			"   argocd-agentctl agent print-tls edge-1 --dir ./pki -o yaml | kubectl --context edge-1 apply -f -\n" +
			"   argocd-agentctl agent print-tls edge-1 --agent-context edge-1",
	}
}

func printTLS(c *cli.Context) error {
	name, err := shell.Argument(c, "the agent's name")
	if err != nil {
		return err
	}
	if err := identity.CheckName(name); err != nil {
		return &shell.UsageError{Where: "agent print-tls", What: err.Error(), Advice: "argocd-agentctl agent list shows who there is"}
	}
	show, err := shell.Choice(c, "output", map[string]func(io.Writer, string, kept) error{"pem": showPEM, "yaml": showSecrets})
	if err != nil {
		return err
	}
	k, _, err := certificateOf(c, name)
	if err == errElsewhere {
		return &shell.UsageError{Where: "agent print-tls", What: "it is not said where the certificate is", Advice: "name the agent's cluster by --agent-context or --agent-namespace, or the folder by --dir"}
	}
	if err != nil {
		return fmt.Errorf("%w; argocd-agentctl pki issue agent %s makes one", err, name)
	}
	return show(c.App.Writer, c.String("agent-namespace"), k)
}

func showPEM(w io.Writer, _ string, k kept) error {
	for _, text := range [][]byte{k.Cert, k.Key, k.CA} {
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// showSecrets writes the Secrets of an agent, as pki issue agent makes them.
func showSecrets(w io.Writer, namespace string, k kept) error {
	for i, s := range []struct {
		name, kind string
		data       map[string][]byte
	}{
		{secretAgent, "kubernetes.io/tls", map[string][]byte{"tls.crt": k.Cert, "tls.key": k.Key}},
		{secretCA, "Opaque", map[string][]byte{"ca.crt": k.CA}},
	} {
		text, err := yaml.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Secret", "type": s.kind, "data": s.data,
			"metadata": map[string]any{"name": s.name, "namespace": namespace, "labels": map[string]string{"app.kubernetes.io/part-of": "argocd-agent"}},
		})
		if err != nil {
			return fmt.Errorf("control: print Secret %s: %w", s.name, err)
		}
		if i > 0 {
			fmt.Fprintln(w, "---")
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}
