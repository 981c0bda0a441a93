package command

import (
	"net/http"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi/policy"
	"github.com/argocd-fabric/argocd-agent/sync/project"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

const allowFlag = "live-allow"

// liveFlags are those by which an agent says what the control plane may touch on its cluster.
func liveFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.List(allowFlag, "", "", "a `list` of what users of the control plane may touch on this cluster beside what Applications manage: exec, attach and port-forward into managed pods; kinds such as Pod or apps/Deployment, apps/* for all of a group, or * for all; with commas between"),
	}
}

// liveTerms returns what an agent that has these rules lets the control plane do. One that
// observes, or whose Applications are not the control plane's, is only read from.
func liveTerms(c *cli.Context, r resource.Rules) (policy.Terms, error) {
	allow, err := policy.ParseAllow(c.String(allowFlag))
	if err != nil {
		return policy.Terms{}, &shell.UsageError{Where: "--" + allowFlag, What: err.Error(), Advice: "write what there is with commas between, as in exec,apps/Deployment"}
	}
	return policy.Terms{Allow: allow, ReadOnly: r.Mode != resource.Managed || c.Bool("observe")}, nil
}

// liveGuard returns what stands before the agent's API server: cfg is how the agent reaches
// it, namespace that of its Argo CD, and m where Applications may be beside it.
func liveGuard(cfg *rest.Config, namespace string, m mapping, terms policy.Terms, log *zap.Logger) (func(http.Handler) http.Handler, error) {
	objects, err := policy.NewCluster(policy.ClusterConfig{REST: cfg, Namespace: namespace})
	if err != nil {
		return nil, err
	}
	p, err := policy.New(policy.Config{
		Terms:      terms,
		Namespace:  namespace,
		Namespaces: func(other string) bool { return m.destination && project.MatchNamespace(m.namespaces, other) },
		Objects:    objects,
		Log:        log,
	})
	if err != nil {
		return nil, err
	}
	return p.Guard, nil
}
