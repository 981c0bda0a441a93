package control

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/bench"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

func benchCommand() *cli.Command {
	c := &cli.Command{Name: "bench", Usage: "measure how fast and how small principal and agents are on this machine, without a cluster"}
	for _, r := range bench.Rows() {
		c.Subcommands = append(c.Subcommands, benchRow(r))
	}
	c.Subcommands = append(c.Subcommands, benchPage(), &cli.Command{
		Name: "agents", Hidden: true, Usage: "be the agents of another bench command", Before: shell.NoArguments,
		Action: func(c *cli.Context) error { return bench.RunAgents(c.Context, c.App.Reader, c.App.Writer) },
	})
	return c
}

// benchRow returns the command that measures a row.
func benchRow(r bench.Row) *cli.Command {
	var flags []cli.Flag
	for _, f := range r.Flags {
		flags = append(flags, benchFlag(f))
	}
	flags = append(flags,
		env.String("output,o", "BENCH_OUTPUT", "table", "the `form` of the output: table or json"),
		env.String("profile", "BENCH_PROFILE", "", "the `folder` to write profiles of the principal's process and, of the last run, of the agents' to; none is no profile"),
	)
	example := "   argocd-agentctl bench " + r.Name
	if len(r.Page) > 0 {
		example += "\n   argocd-agentctl bench " + r.Name + " " + strings.Join(r.Page[0], " ")
	}
	return &cli.Command{
		Name: r.Name, Usage: r.Usage, Before: shell.NoArguments, Flags: flags,
		Action: func(c *cli.Context) error { return measure(c, r) },
		Description: r.Text + "\n\nPrincipal and agents are two processes, joined over mutual TLS on the loopback interface; memory\n" +
			"stores stand for the clusters. It ends with 1 if something was lost, done twice or out of order, or if a\n" +
			"promise is broken that does not depend on the machine. A goal that is missed is said, and is no failure.\n\n" + example,
	}
}

// benchFlag returns the flag for a setting.
func benchFlag(f bench.Flag) cli.Flag {
	variable := "BENCH_" + strings.ToUpper(f.Name)
	switch v := f.Value.(type) {
	case int:
		return env.Int(f.Name, variable, v, benchNumber(f.Name, v), f.Usage)
	case time.Duration:
		return env.Duration(f.Name, variable, v, benchDuration(f.Name), f.Usage)
	}
	return env.String(f.Name, variable, fmt.Sprint(f.Value), f.Usage)
}

// benchNumber is the shell.Check of a setting that is a number: how many there are of something.
func benchNumber(name string, v int) shell.Check[int] {
	if name == "seed" {
		return shell.AnyNumber
	}
	return shell.From(1, math.MaxInt, "write a number such as "+fmt.Sprint(v))
}

// benchDuration is the shell.Check of a setting that is a duration.
func benchDuration(name string) shell.Check[time.Duration] {
	if name == "delay" {
		return shell.NotNegative
	}
	return shell.Positive
}

// measure measures a row, and shows what was measured.
func measure(c *cli.Context, r bench.Row) (err error) {
	show, err := shell.Choice(c, "output", map[string]func(*cli.Context, bench.Report) error{"table": showBenchTable, "json": showBenchJSON})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("bench: find this program: %w", err)
	}
	if dir := c.String("profile"); dir != "" {
		done, err := profile(dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
	}
	report, err := r.Measure(c.Context, bench.Settings{
		Transport: bench.Carrier(c.String("transport")),
		Agents:    c.Int("agents"), Apps: c.Int("apps"), Rate: c.Int("rate"), Requests: c.Int("requests"),
		Duration: c.Duration("duration"), Delay: c.Duration("delay"),
		Seed: c.Int("seed"), Runs: c.Int("runs"), Kubeconfig: c.String("kubeconfig"), Profile: c.String("profile"),
		Command: []string{self, "bench", "agents"}, Log: zap.NewNop(),
	})
	if misfit := (*bench.Misfit)(nil); errors.As(err, &misfit) {
		return &shell.UsageError{Where: "--" + misfit.Flag, What: misfit.What, Advice: misfit.Advice}
	}
	if err != nil {
		return err
	}
	if err := show(c, report); err != nil {
		return err
	}
	if !report.OK {
		return errors.New("bench: " + report.Verdict)
	}
	return nil
}

// profile begins to profile this process; what it returns writes the profiles into a folder.
func profile(dir string) (done func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("bench: profile: %w", err)
	}
	cpu, err := os.Create(filepath.Join(dir, "cpu.pprof"))
	if err != nil {
		return nil, fmt.Errorf("bench: profile: %w", err)
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(fmt.Errorf("bench: profile: %w", err), cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		allocs, err := os.Create(filepath.Join(dir, "allocs.pprof"))
		if err != nil {
			return errors.Join(fmt.Errorf("bench: profile: %w", err), cpu.Close())
		}
		err = pprof.Lookup("allocs").WriteTo(allocs, 0)
		return errors.Join(err, allocs.Close(), cpu.Close())
	}, nil
}

func benchPage() *cli.Command {
	var names []string
	for _, r := range bench.Rows() {
		names = append(names, r.Name)
	}
	return &cli.Command{
		Name: "page", Usage: "run all of these, and write a page of what they have measured", Before: shell.NoArguments,
		Flags: []cli.Flag{
			env.String("write", "BENCH_WRITE", "BENCHMARKS.md", "the `file` to write"),
			env.Bool("long", "BENCH_LONG", "take the settings that the commands have by themselves, which takes an hour or two instead of about 20 minutes"),
			env.List("rows", "BENCH_ROWS", "", "the `names` of those that are run, apart by commas; none is all"),
		},
		Action: func(c *cli.Context) error { return writePage(c, names) },
		Description: "Each command runs in a process of its own. The page says what machine it was and how busy, and has the\n" +
			"command above every figure. It ends with 1 if one of the commands has found that something is wrong.\n\n" +
			"   argocd-agentctl bench page\n   argocd-agentctl bench page --rows latency,away --write /tmp/page.md",
	}
}

func writePage(c *cli.Context, names []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("bench: find this program: %w", err)
	}
	p := bench.Page{Program: []string{self, "bench"}, Name: "argocd-agentctl bench", Long: c.Bool("long"), Progress: c.App.ErrWriter}
	p.Rows = shell.List(c.String("rows"))
	known := strings.Join(names, ", ")
	for _, name := range p.Rows {
		if !strings.Contains(", "+known+", ", ", "+name+", ") {
			return &shell.UsageError{Where: "--rows", What: fmt.Sprintf("there is no %q", name), Advice: "write some of " + known}
		}
	}
	page, ok, err := p.Make(c.Context)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.String("write"), page, 0o644); err != nil {
		return fmt.Errorf("bench: write the page: %w", err)
	}
	if !ok {
		return errors.New("bench: something is wrong: see what failed in " + c.String("write"))
	}
	return nil
}

func showBenchJSON(c *cli.Context, r bench.Report) error { return shell.JSON(c.App.Writer, r) }

func showBenchTable(c *cli.Context, r bench.Report) error {
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "MEASURE\tMEDIAN\tWORST\tGOAL")
	for _, m := range r.Measures {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", m.Name, bench.Figure(m.Median), bench.Figure(m.Worst), m.Goal)
	}
	fmt.Fprintf(w, "\n%s\n", r.Verdict)
	return w.Flush()
}
