package kube

import (
	"github.com/urfave/cli/v2"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// ConnectBy is Connect to the cluster that two flags of a command name.
func ConnectBy(c *cli.Context, kubeconfig, context string) (*rest.Config, error) {
	cfg, err := Connect(c.String(kubeconfig), c.String(context))
	if err != nil {
		return nil, &shell.UsageError{Where: "--" + kubeconfig + ", --" + context, What: err.Error(), Advice: "say how to reach the cluster"}
	}
	return cfg, nil
}
