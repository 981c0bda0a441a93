// Command argocd-agent is the principal and the agent.
package main

import (
	"os"

	"github.com/argocd-fabric/argocd-agent/cli/command"
)

func main() { os.Exit(command.Main(os.Args, os.Stdout, os.Stderr)) }
