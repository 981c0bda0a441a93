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
	"path/filepath"
	"strings"
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
			b, err := stack.Build(ctx, argoCD, os.Stdout)
			if err == nil {
				fmt.Printf("stack: all is built; kubectl: %s\n", b.Path("kubectl"))
			}
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
stack up [2|3]      runs a hub with argocd-server and two spokes with the whole of Argo CD, writes a file
                    that tells a shell where all of it is, and ends with Ctrl-C. argocd-server shows
                    the namespaces edge-*, and expects the principal's Redis at $PROXY_REDIS

The number is the major version of Argo CD, ` + stack.DefaultArgoCD + ` if it is left out.
`

// up runs a hub with argocd-server, and two spokes with everything. The hub is set up for a principal: its argocd-server shows the
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
			{Name: "hub", Server: true, RedisProxy: true, Controllers: true, ApplicationNamespaces: []string{"edge-*"}},
			{Name: "spoke1", ArgoCD: true},
			{Name: "spoke2", ArgoCD: true},
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(), os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "env.sh")
	if err := os.WriteFile(file, []byte(environment(s)), 0o644); err != nil {
		return err
	}
	fmt.Printf("stack: started in %.1f s; state and logs: %s\n", time.Since(start).Seconds(), dir)
	fmt.Printf("stack: argocd-server: %s\n", s.Cluster("hub").ArgoCDServerURL())
	fmt.Printf("stack: in another shell, for kubectl and all addresses:\n\n    . %s\n\nstack: ends with Ctrl-C\n", file)
	<-ctx.Done()
	return nil
}

// environment returns what a shell reads to use a stack: where kubectl is, the kubeconfigs, the
// Redis of each Argo CD, and where the hub's argocd-server expects the principal's.
func environment(s *stack.Stack) string {
	hub, one, two := s.Cluster("hub"), s.Cluster("spoke1"), s.Cluster("spoke2")
	lines := [][2]string{
		{"PATH", filepath.Dir(s.Binaries().Path("kubectl")) + ":$PATH"},
		{"HUB", hub.Kubeconfig()}, {"SPOKE1", one.Kubeconfig()}, {"SPOKE2", two.Kubeconfig()},
		{"KUBECONFIG", hub.Kubeconfig() + ":" + one.Kubeconfig() + ":" + two.Kubeconfig()},
		{"ARGOCD_SERVER_URL", hub.ArgoCDServerURL()},
		{"HUB_REDIS", hub.RedisAddress()}, {"SPOKE1_REDIS", one.RedisAddress()}, {"SPOKE2_REDIS", two.RedisAddress()},
		{"PROXY_REDIS", hub.RedisProxyAddress()},
	}
	var out strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&out, "export %s=\"%s\"\n", l[0], l[1])
	}
	return out.String()
}
