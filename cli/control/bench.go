package control

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/bench"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "measure how fast principal and agents are on this machine, without a cluster",
		Subcommands: []*cli.Command{
			{
				Name:   "slow-backend",
				Usage:  "offer changes to an agent whose cluster takes its time to write",
				Before: shell.NoArguments,
				Action: benchSlowBackend,
				Flags: []cli.Flag{
					&cli.DurationFlag{Name: "delay", Value: 105 * time.Millisecond, Usage: "which `duration` each write takes on the agent's cluster"},
					&cli.IntFlag{Name: "rate", Value: 200, Usage: "how many `changes` a second are offered"},
					&cli.DurationFlag{Name: "duration", Value: time.Minute, Usage: "for which `duration` they are"},
					&cli.IntFlag{Name: "apps", Value: 1000, Usage: "how many `Applications` there are"},
					&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "the `number` that decides which Application is changed when"},
					&cli.IntFlag{Name: "runs", Value: 3, Usage: "how many `times` it is measured"},
					&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "the `form` of the output: table or json"},
				},
				Description: "Runs a principal, and an agent as another process, joined by NATS over mutual TLS on the\n" +
					"loopback interface; memory stores stand for the clusters. Changes are offered at the rate, and then\n" +
					"ten times as fast for a third of the time. It ends with 1 if changes were lost, or a backlog grew\n" +
					"at the rate.\n\n" +
					"   argocd-agentctl bench slow-backend\n" +
					"   argocd-agentctl bench slow-backend --rate 500 --duration 30s -o json",
			},
			{Name: "agent", Hidden: true, Usage: "be the agent of another bench command", Before: shell.NoArguments, Action: benchAgent},
		},
	}
}

func benchAgent(c *cli.Context) error { return bench.RunAgent(c.Context, c.App.Reader, c.App.Writer) }

func benchSlowBackend(c *cli.Context) error {
	show, err := shell.Choice(c, "output", map[string]func(*cli.Context, bench.Result) error{"table": showBenchTable, "json": showBenchJSON})
	if err != nil {
		return err
	}
	for _, flag := range []string{"rate", "apps", "runs"} {
		if v := c.Int(flag); v < 1 {
			return &shell.UsageError{Where: "--" + flag, What: fmt.Sprintf("%d is below one", v), Advice: "write a number"}
		}
	}
	duration, err := shell.Positive(c, "duration")
	if err != nil {
		return err
	}
	if v := c.Duration("delay"); v < 0 {
		return &shell.UsageError{Where: "--delay", What: fmt.Sprintf("%v is below zero", v), Advice: "write a duration such as 105ms"}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("bench: find this program: %w", err)
	}
	result, err := bench.SlowBackend{
		Delay: c.Duration("delay"), Rate: c.Int("rate"), Duration: duration,
		Apps: c.Int("apps"), Seed: c.Uint64("seed"), Runs: c.Int("runs"),
		Agent: []string{self, "bench", "agent"}, Log: zap.NewNop(),
	}.Run(c.Context)
	if err != nil {
		return err
	}
	if err := show(c, result); err != nil {
		return err
	}
	if !result.OK {
		return errors.New("bench: " + result.Verdict)
	}
	return nil
}

func showBenchJSON(c *cli.Context, r bench.Result) error { return shell.JSON(c.App.Writer, r) }

func showBenchTable(c *cli.Context, r bench.Result) error {
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "MEASURE\tMEDIAN\tWORST\tGOAL")
	for _, m := range r.Measures {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", m.Name, bench.Figure(m.Median), bench.Figure(m.Worst), m.Goal)
	}
	fmt.Fprintf(w, "\n%s\n", r.Verdict)
	return w.Flush()
}
