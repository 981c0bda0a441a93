package command

import (
	"context"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/cli/kube"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/hybrid"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// mostRequests is more of them than any API server answers.
const mostRequests = 1_000_000

// kubernetesFlags are those by which a cluster is reached.
func kubernetesFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("kubeconfig", "", "", "a `file` that says how to reach the cluster; empty is kubectl's, or the cluster that the program runs in"),
		f.String("kubecontext", "", "", "the `context` in it; empty is its current one"),
		f.Int("kube-qps", "", 100, shell.From(1, mostRequests, "write a number of requests"), "how many `requests` a second are made to the cluster"),
		f.Int("kube-burst", "", 300, shell.From(1, mostRequests, "write a number of requests"), "how many `requests` may be made at once"),
	}
}

// openKubernetes keeps objects in the cluster that flags name. A principal's are those of
// all namespaces, an agent's those of its own, unless it is allowed others: these are given by
// patterns, so that it sees all, and its placement leaves out what it is not to touch.
func openKubernetes(c *cli.Context, s resource.Side, log *zap.Logger) (k cluster, err error) {
	namespace, err := shell.Needed(c, "namespace", "name the one that Argo CD is in")
	if err != nil {
		return k, err
	}
	cfg, err := kube.ConnectBy(c, "kubeconfig", "kubecontext")
	if err != nil {
		return k, err
	}
	secrets, err := kube.NewSecrets(cfg, namespace)
	if err != nil {
		return k, err
	}
	k.rest, k.secrets = cfg, secrets.Get
	known := kubestore.Config{REST: cfg, Side: s, Home: namespace, QPS: float32(c.Int("kube-qps")), Burst: c.Int("kube-burst"), Log: log}
	if s == resource.Agent {
		rules, err := agentRules(c)
		if err != nil {
			return k, err
		}
		known.Kinds = rules.Kinds()
		by, err := mappingOf(c)
		if err != nil {
			return k, err
		}
		if len(by.namespaces) == 0 {
			known.Namespace = namespace
		}
		known.MakeNamespaces = c.Bool(createFlag)
	}
	store, err := kubestore.New(known)
	if err != nil {
		return k, err
	}
	k.store, k.remote, k.run = store, store, store.Run
	home, err := kubestore.NewHome(kubestore.HomeConfig{REST: cfg, Namespace: namespace, Log: log})
	if err != nil {
		return k, err
	}
	k.waiting = "waiting for the API server at " + cfg.Host
	k.answers, k.keep, k.served = home.Answers, home.Keep, servedBy(home)
	if s == resource.Principal {
		k.remote = backend.Remotes{store, home}
		k.registry, k.blocked, k.home, k.identity, k.controllers = home.Registry(), home, home, home.Identity, controllersOf(home)
	}
	return k, nil
}

// servedBy returns what a cluster says of itself.
func servedBy(h *kubestore.Home) func(context.Context) (inquiry.Cluster, error) {
	return func(ctx context.Context) (inquiry.Cluster, error) {
		s, err := h.Served(ctx)
		return inquiry.Cluster{Version: s.Version, APIs: s.APIs, Kinds: int64(s.Kinds)}, err
	}
}

// controllersOf finds the controllers of a hub's Argo CD.
func controllersOf(h *kubestore.Home) func(context.Context) ([]hybrid.Controller, error) {
	return func(ctx context.Context) (out []hybrid.Controller, err error) {
		found, err := h.Controllers(ctx)
		for _, c := range found {
			out = append(out, hybrid.Controller(c))
		}
		return out, err
	}
}
