package command

import (
	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// kubernetesFlags are those by which a cluster is reached.
func kubernetesFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("kubeconfig", "", "", "a `file` that says how to reach the cluster; empty is the cluster that the program runs in"),
		f.String("kubecontext", "", "", "the `context` in it; empty is its current one"),
		f.Int("kube-qps", "", 100, "how many `requests` a second are made to the cluster"),
		f.Int("kube-burst", "", 300, "how many `requests` may be made at once"),
	}
}
