// Command stack builds the servers that the end-to-end tests run, and runs
// them for whoever wants to look at them.
//
//	stack build [3]   builds what the cache lacks
//	stack up [3]      runs a hub and two spokes until it is interrupted
//
// The number is the major version of Argo CD, by default 2.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	argoCD := stack.DefaultArgoCD
	if len(args) == 2 {
		argoCD = args[1]
	}
	if len(args) == 1 || len(args) == 2 {
		switch args[0] {
		case "build":
			_, err := stack.Build(ctx, argoCD, os.Stdout)
			return err
		case "up":
			return up(ctx, argoCD)
		}
	}
	if len(args) == 1 && (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
		fmt.Print(usage)
		return nil
	}
	return errors.New("stack: say build or up, and the major version of Argo CD, 2 or 3, if it is not to be " + stack.DefaultArgoCD + "; see --help")
}

const usage = `stack build [2|3]   builds the servers that the tests run, if they are not in the cache
stack up [2|3]      runs a hub with argocd-server, a spoke with the whole of Argo CD, and a spoke with an
                    API server alone, says where all of it is, and ends with Ctrl-C. argocd-server shows
                    the namespaces edge-*, and expects the principal's Redis where this says

The number is the major version of Argo CD, ` + stack.DefaultArgoCD + ` if it is left out.
`

// up runs a hub with argocd-server, a spoke with everything and one with an API
// server only. The hub is set up for a principal: its argocd-server shows the
// namespaces of agents, and uses the principal's Redis.
func up(ctx context.Context, argoCD string) (err error) {
	dir, err := os.MkdirTemp("", "stack-")
	if err != nil {
		return err
	}
	start := time.Now()
	s, err := stack.Start(ctx, dir, stack.Config{
		Output: os.Stdout,
		ArgoCD: argoCD,
		Clusters: []stack.ClusterConfig{
			{Name: "hub", Server: true, RedisProxy: true, ApplicationNamespaces: []string{"edge-*"}},
			{Name: "spoke1", ArgoCD: true},
			{Name: "spoke2", CRDs: true},
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(), os.RemoveAll(dir)) }()
	fmt.Printf("stack: started in %.1f s; state and logs: %s\n", time.Since(start).Seconds(), dir)
	fmt.Printf("stack: kubectl: %s; argocd-server: %s\n",
		s.Binaries().Path("kubectl"), s.Cluster("hub").ArgoCDServerURL())
	fmt.Printf("stack: Redis of Argo CD: hub %s; spoke1 %s; argocd-server uses the principal's at %s (--redis-proxy-listen)\n",
		s.Cluster("hub").RedisAddress(), s.Cluster("spoke1").RedisAddress(), s.Cluster("hub").RedisProxyAddress())
	for _, name := range []string{"hub", "spoke1", "spoke2"} {
		fmt.Printf("stack: %s: KUBECONFIG=%s\n", name, s.Cluster(name).Kubeconfig())
	}
	<-ctx.Done()
	return nil
}
