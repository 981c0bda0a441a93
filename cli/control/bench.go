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
			{
				Name:   "churn",
				Usage:  "see whether memory is flat while Applications come and go",
				Before: shell.NoArguments,
				Action: benchChurn,
				Flags: []cli.Flag{
					&cli.IntFlag{Name: "rate", Value: 100, Usage: "how many `times` a second an Application is created, changed or deleted"},
					&cli.DurationFlag{Name: "duration", Value: 10 * time.Minute, Usage: "for which `duration`"},
					&cli.IntFlag{Name: "apps", Value: 500, Usage: "how many `names` of Applications there are"},
					&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "the `number` that decides what is done when"},
					&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "the `form` of the output: table or json"},
				},
				Description: "Runs a principal, and an agent as another process, as slow-backend does, and looks at what\n" +
					"both take of memory after collecting their garbage. It ends with 1 if that is more than 5 % higher in\n" +
					"the last quarter of the time than in the second, or if the two sides are not equal in the end.\n\n" +
					"   argocd-agentctl bench churn --duration 10m",
			},
			{
				Name:   "live",
				Usage:  "see what the way through principal and agent adds to requests of an API server",
				Before: shell.NoArguments,
				Action: benchLive,
				Flags: []cli.Flag{
					&cli.IntFlag{Name: "requests", Value: 2000, Usage: "how many `requests` are made in a run, each way"},
					&cli.DurationFlag{Name: "follow", Value: 10 * time.Second, Usage: "for which `duration` a log is followed"},
					&cli.IntFlag{Name: "runs", Value: 3, Usage: "how many `times` it is measured"},
					&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "the `form` of the output: table or json"},
				},
				Description: "Runs a principal, and an agent as another process that has an API server, as slow-backend does.\n" +
					"Objects of 2 KiB are read from it directly and by the principal's resource proxy in turn, and a log is\n" +
					"followed. No policy looks at the requests.\n\n" +
					"   argocd-agentctl bench live",
			},
			{Name: "agent", Hidden: true, Usage: "be the agent of another bench command", Before: shell.NoArguments, Action: benchAgent},
		},
	}
}

func benchAgent(c *cli.Context) error { return bench.RunAgent(c.Context, c.App.Reader, c.App.Writer) }

func benchSlowBackend(c *cli.Context) error {
	show, err := benchOutput(c)
	if err == nil {
		err = aboveZero(c, "rate", "apps", "runs")
	}
	if err != nil {
		return err
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
	return show(report{result, result.Measures, result.Verdict, result.OK})
}

func benchChurn(c *cli.Context) error {
	show, err := benchOutput(c)
	if err == nil {
		err = aboveZero(c, "rate", "apps")
	}
	if err != nil {
		return err
	}
	duration := c.Duration("duration")
	if duration < 2*time.Minute {
		return &shell.UsageError{Where: "--duration", What: fmt.Sprintf("%v is too short: processes take longer to warm up", duration), Advice: "write at least 2m"}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("bench: find this program: %w", err)
	}
	result, err := bench.Churn{
		Rate: c.Int("rate"), Duration: duration, Apps: c.Int("apps"), Seed: c.Uint64("seed"), Every: min(10*time.Second, duration/16),
		Agent: []string{self, "bench", "agent"}, Log: zap.NewNop(),
	}.Run(c.Context)
	if err != nil {
		return err
	}
	return show(report{result, result.Measures, result.Verdict, result.OK})
}

func benchLive(c *cli.Context) error {
	show, err := benchOutput(c)
	if err == nil {
		err = aboveZero(c, "requests", "runs")
	}
	if err != nil {
		return err
	}
	follow, err := shell.Positive(c, "follow")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("bench: find this program: %w", err)
	}
	result, err := bench.Live{
		Requests: c.Int("requests"), Follow: follow, Runs: c.Int("runs"), Agent: []string{self, "bench", "agent"}, Log: zap.NewNop(),
	}.Run(c.Context)
	if err != nil {
		return err
	}
	return show(report{result, result.Measures, result.Verdict, result.OK})
}

func aboveZero(c *cli.Context, flags ...string) error {
	for _, flag := range flags {
		if v := c.Int(flag); v < 1 {
			return &shell.UsageError{Where: "--" + flag, What: fmt.Sprintf("%d is below one", v), Advice: "write a number"}
		}
	}
	return nil
}

// A report is what a benchmark has found.
type report struct {
	whole    any // as it is shown in JSON
	measures []bench.Measure
	verdict  string
	ok       bool
}

// benchOutput returns what shows a report, and fails if the verdict is bad.
func benchOutput(c *cli.Context) (func(report) error, error) {
	show, err := shell.Choice(c, "output", map[string]func(*cli.Context, report) error{"table": showBenchTable, "json": showBenchJSON})
	return func(r report) error {
		if err := show(c, r); err != nil {
			return err
		}
		if !r.ok {
			return errors.New("bench: " + r.verdict)
		}
		return nil
	}, err
}

func showBenchJSON(c *cli.Context, r report) error { return shell.JSON(c.App.Writer, r.whole) }

func showBenchTable(c *cli.Context, r report) error {
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "MEASURE\tMEDIAN\tWORST\tGOAL")
	for _, m := range r.measures {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", m.Name, bench.Figure(m.Median), bench.Figure(m.Worst), m.Goal)
	}
	fmt.Fprintf(w, "\n%s\n", r.verdict)
	return w.Flush()
}
