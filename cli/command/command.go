// Package command is the program argocd-agent: its commands, their flags, and what each
// of them runs. Here, and nowhere else, adapters are chosen, logs are opened and signals
// are heard.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// grace is how long a program may take to end after a signal: less than a pod's 30 s.
const grace = 20 * time.Second

// Main runs the program with arguments as in os.Args until it ends by itself or by a
// signal, and returns the code to exit with, see package shell.
func Main(args []string, stdout, stderr io.Writer) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	return heed(signals, grace, stderr, func(ctx context.Context) int {
		return shell.Run(ctx, App(stdout, stderr), args)
	})
}

// App returns the program's commands, which Main runs and the reference is made of.
func App(stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:      "argocd-agent",
		Usage:     "Argo CD on many clusters, without the hub holding credentials for any of them",
		Writer:    stdout,
		ErrWriter: stderr,
		Commands:  []*cli.Command{principalCommand(), agentCommand(), demoCommand(), VersionCommand()},
	}
}

// heed runs a program. The first signal asks it to end; it is given up, and may not have
// ended, when it takes longer than patience or at the second signal.
func heed(signals <-chan os.Signal, patience time.Duration, stderr io.Writer, run func(context.Context) int) int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	code := make(chan int, 1)
	go func() { code <- run(ctx) }()
	select {
	case c := <-code:
		return c
	case <-signals:
	}
	stop()
	select {
	case c := <-code:
		return c
	case <-signals:
		fmt.Fprintln(stderr, "argocd-agent: a second signal: ended before everything was closed")
	case <-time.After(patience):
		fmt.Fprintf(stderr, "argocd-agent: not closed within %v of the signal: ended all the same\n", patience)
	}
	return shell.Fault
}
