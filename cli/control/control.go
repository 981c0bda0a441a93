// Package control is the program argocd-agentctl, with which principals and agents are
// set up (certificates, keys, and the registry of agents), and a running principal is asked.
package control

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/command"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// env begins the names of all variables of the environment.
const env shell.Flags = "ARGOCD_AGENT_"

// Main runs the program with arguments as in os.Args until it ends by itself or by a
// signal, and returns the code to exit with, see package shell.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return shell.Run(ctx, App(stdout, stderr), args)
}

// App returns the program's commands, which Main runs and the reference is made of.
func App(stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:      "argocd-agentctl",
		Usage:     "set up principals and agents, and see how they stand",
		Writer:    stdout,
		ErrWriter: stderr,
		Commands:  []*cli.Command{pkiCommand(), jwtCommand(), natsCommand(), agentCommand(), blocklistCommand(), userpassCommand(), statusCommand(), verifyCommand(), explainCommand(), planCommand(), adoptCommand(), deadletterCommand(), command.CheckCommand(), benchCommand(), command.VersionCommand()},
	}
}
