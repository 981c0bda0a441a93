// Command argocd3 is one binary holding the parts of Argo CD 3.2 that the
// tests run. The name it is called by, usually that of a symbolic link, picks
// the part.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	applicationset "github.com/argoproj/argo-cd/v3/cmd/argocd-applicationset-controller/commands"
	askpass "github.com/argoproj/argo-cd/v3/cmd/argocd-git-ask-pass/commands"
	notification "github.com/argoproj/argo-cd/v3/cmd/argocd-notification/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	server "github.com/argoproj/argo-cd/v3/cmd/argocd-server/commands"
	cli "github.com/argoproj/argo-cd/v3/cmd/argocd/commands"
	"github.com/spf13/cobra"
)

// parts maps each name to the command behind it.
func parts() map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"argocd":                           cli.NewCommand,
		"argocd-application-controller":    controller.NewCommand,
		"argocd-applicationset-controller": applicationset.NewCommand,
		"argocd-git-ask-pass":              askpass.NewCommand,
		"argocd-notifications":             notification.NewCommand,
		"argocd-repo-server":               reposerver.NewCommand,
		"argocd-server":                    server.NewCommand,
	}
}

func main() {
	name := filepath.Base(os.Args[0])
	newCommand, ok := parts()[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: no such part; link this binary to the name of one\n", name)
		os.Exit(2)
	}
	if err := newCommand().Execute(); err != nil {
		os.Exit(1)
	}
}
