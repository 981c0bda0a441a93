// Command argocd-agentctl sets up principals and agents.
package main

import (
	"os"

	"github.com/argocd-fabric/argocd-agent/cli/control"
)

func main() { os.Exit(control.Main(os.Args, os.Stdout, os.Stderr)) }
