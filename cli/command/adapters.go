package command

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/cli/agentsfile"
	"github.com/argocd-fabric/argocd-agent/cli/blockfile"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/hybrid"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// backends is the table of backends: each value of --backend is a row in it, and nothing else.
func backends() map[string]func(*cli.Context, resource.Side, *zap.Logger) (cluster, error) {
	return map[string]func(*cli.Context, resource.Side, *zap.Logger) (cluster, error){
		"kubernetes": openKubernetes,
		"memory":     openMemory,
		"nats":       openNATS,
	}
}

// adapterFlags are those by which adapters are chosen, and what is to be seen of a backend.
func adapterFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.List("transport", "", "nats", "the `transport` by which the two sides reach each other: nats (what is said is kept on both disks), or grpc (one port, and no store but the agent's copy in --state-dir); the principal may serve both, as nats,grpc, and an agent goes from one to the other by a restart"),
		f.String("backend", "", "kubernetes", "the `backend` that has this side's objects: kubernetes, memory (gone with the program), or nats (a bucket of NATS JetStream's key-value store, with --backend-nats-url)"),
		f.String("label-selector", "", "", "a `selector` as kubectl takes it: objects whose labels do not match are not kept in step, and stay as they are on both sides; empty is all objects"),
	}
}

// A cluster is where one side's objects are, and what else a program needs of it.
type cluster struct {
	store    backend.Store
	remote   backend.Remote              // the store, where it is of another process; else nil
	run      func(context.Context) error // the store works while it runs; nil: always
	rest     *rest.Config                // of its Kubernetes API; nil where there is none
	waiting  string                      // says that it does not answer yet, and where it is
	answers  func(context.Context) error // whether it can be spoken to; nil where it always can
	secrets  secrets
	keep     keeper
	registry backend.Registry                               // of a hub
	blocked  blocklist                                      // of a hub; nil where there is none
	home     *kubestore.Home                                // of a hub whose agents are cluster Secrets; else nil
	identity func(context.Context) (string, error)          // of a hub; made if there is none
	served   func(context.Context) (inquiry.Cluster, error) // of an agent; nil where there is no cluster
	// controllers are Argo CD's own of a hub, where there is a cluster to have any; else nil.
	controllers func(context.Context) ([]hybrid.Controller, error)
}

// secrets gives the content of a Secret in the program's namespace.
type secrets func(ctx context.Context, name string) (map[string][]byte, error)

func openCluster(c *cli.Context, s resource.Side, log *zap.Logger) (cluster, error) {
	open, err := shell.Choice(c, "backend", backends())
	if err != nil {
		return cluster{}, err
	}
	selector, err := labelSelector(c)
	if err != nil {
		return cluster{}, err
	}
	k, err := open(c, s, log)
	if err != nil {
		return cluster{}, err
	}
	if !selector.Empty() {
		k.store = backend.Selection{
			Store:   k.store,
			Selects: func(l map[string]string) bool { return selector.Matches(labels.Set(l)) },
			Name:    fmt.Sprintf("--label-selector %q", c.String("label-selector")),
		}
	}
	if file := c.String("agents-file"); file != "" && s == resource.Principal {
		if _, err := agentsfile.Read(file); err != nil {
			return cluster{}, &shell.UsageError{Where: "--agents-file", What: err.Error(), Advice: "name a file as argocd-agentctl agent create --agents-file writes it"}
		}
		k.registry, k.home = agentsfile.Registry{Path: file, Poll: 2 * time.Second, Log: log}, nil
	}
	if file := c.String("blocklist-file"); file != "" && s == resource.Principal {
		k.blocked = blockedFile{blockfile.File(file), log}
		if _, err := k.blocked.Blocked(c.Context); err != nil {
			return cluster{}, &shell.UsageError{Where: "--blocklist-file", What: err.Error(), Advice: "name a file as argocd-agentctl blocklist add --blocklist-file writes it"}
		}
	}
	return k, nil
}

func labelSelector(c *cli.Context) (labels.Selector, error) {
	s, err := labels.Parse(c.String("label-selector"))
	if err != nil {
		return nil, &shell.UsageError{Where: "--label-selector", What: err.Error(), Advice: "write one as kubectl takes it, such as team=blue,tier!=test"}
	}
	return s, nil
}

// openMemory keeps objects in memory, where nobody but the program itself can see them:
// it shows that two programs reach each other, and no more.
func openMemory(c *cli.Context, s resource.Side, log *zap.Logger) (cluster, error) {
	const where = "--backend memory"
	if s == resource.Principal && c.String("agents-file") == "" {
		return cluster{}, noClusterSecrets(where)
	}
	return cluster{
		store:    memstore.New(memstore.Config{Name: rand.Text()}),
		keep:     keepFile(stateDir(c), log),
		identity: func(context.Context) (string, error) { return rand.Text(), nil },
		secrets:  noSecrets(where),
	}, nil
}

// noClusterSecrets is what is wrong with a principal whose backend, which where names,
// cannot know agents.
func noClusterSecrets(where string) error {
	return &shell.UsageError{Where: where, What: "there are no cluster Secrets to know agents by", Advice: "add --agents-file"}
}

// noSecrets are those of a backend, which where names, that has none.
func noSecrets(where string) secrets {
	return func(_ context.Context, name string) (map[string][]byte, error) {
		return nil, &shell.UsageError{Where: where, What: "there is no Secret " + name, Advice: "name certificate, key and CA as files, see --help"}
	}
}
