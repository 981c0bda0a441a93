package command

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/argocd-fabric/argocd-agent/cli/demo"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

func demoCommand() *cli.Command {
	return &cli.Command{
		Name:   "demo",
		Usage:  "play the main story on this machine, without a cluster",
		Before: shell.NoArguments,
		Action: runDemo,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "agents", Value: 1, Action: shell.Checked("agents", shell.From(1, demo.MaxAgents, "write a number of agents")), Usage: "how many managed `agents` there are, besides the autonomous one"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "the `form` of the output: table or json"},
			&cli.StringFlag{Name: "transport", Value: "nats", Usage: "the `transport` by which messages travel: nats or grpc"},
			&cli.StringFlag{Name: "nats-mode", Value: "leaf", Usage: "the `mode` of agents with --transport nats: leaf (each has a NATS server of its own) or client (none has)"},
			&cli.StringFlag{Name: "nats", Value: "embedded", Usage: "the `place` of the principal's NATS servers with --transport nats: embedded (in the principal) or external (a cluster of three that the demonstration starts)"},
			&cli.BoolFlag{Name: "enable-websocket", Usage: "have websockets carry them"},
			&cli.StringFlag{Name: "sabotage", Usage: "the `lie` that the store beneath one agent tells: drop (writes are not done), corrupt (they are done wrongly) or undelete (removals are not done)"},
			&cli.BoolFlag{Name: "verbose", Usage: "show the log of all programs"},
		},
		Description: "Runs a principal and its agents in one process, cuts one agent off, changes things on both\n" +
			"sides meanwhile, and joins them again. At the end it reads both sides afresh and compares them; it\n" +
			"ends with 1 if they differ.\n\n" +
			"   argocd-agent demo\n" +
			"   argocd-agent demo --agents 20 -o json\n" +
			"   argocd-agent demo --transport grpc\n" +
			"   argocd-agent demo --nats-mode client\n" +
			"   argocd-agent demo --nats external\n" +
			"   argocd-agent demo --sabotage drop",
	}
}

// demoCarriers are the values of --transport, --nats-mode, --nats and --enable-websocket that go together,
// and by what messages travel then.
func demoCarriers() map[string]demo.Carrier {
	return map[string]demo.Carrier{
		"nats leaf embedded": demo.NATS, "nats client embedded": demo.NATSClient,
		"nats leaf external": demo.NATSExternal, "nats client external": demo.NATSExternalClient,
		"nats leaf embedded websocket": demo.NATSWebsocket,
		"grpc leaf embedded":           demo.GRPC, "grpc leaf embedded websocket": demo.GRPCWebsocket,
	}
}

// demoCarrier returns by what messages travel.
func demoCarrier(c *cli.Context) (demo.Carrier, error) {
	var all []string
	for _, f := range []struct {
		name   string
		values map[string]string
	}{
		{"transport", map[string]string{"nats": "nats", "grpc": "grpc"}},
		{"nats-mode", map[string]string{"leaf": "leaf", "client": "client"}},
		{"nats", map[string]string{"embedded": "embedded", "external": "external"}},
	} {
		value, err := shell.Choice(c, f.name, f.values)
		if err != nil {
			return 0, err
		}
		all = append(all, value)
	}
	if c.Bool("enable-websocket") {
		all = append(all, "websocket")
	}
	carrier, together := demoCarriers()[strings.Join(all, " ")]
	switch {
	case together:
		return carrier, nil
	case c.String("nats") == "external":
		return 0, &shell.UsageError{Where: "--nats external", What: "it is for --transport nats, and shown without websockets", Advice: "leave out the other flags, but for --nats-mode"}
	}
	return 0, &shell.UsageError{Where: "--nats-mode client", What: "it is for --transport nats, and shown without websockets", Advice: "leave out the other flags"}
}

func runDemo(c *cli.Context) error {
	lie, err := shell.Choice(c, "sabotage", map[string]demo.Lie{
		"": demo.None, "drop": demo.Drop, "corrupt": demo.Corrupt, "undelete": demo.Undelete,
	})
	if err != nil {
		return err
	}
	carrier, err := demoCarrier(c)
	if err != nil {
		return err
	}
	show, err := shell.Choice(c, "output", map[string]func(io.Writer) show{"table": newTable, "json": newJSON})
	if err != nil {
		return err
	}
	log := zap.NewNop()
	if c.Bool("verbose") {
		log = quiet(openLog(c.App.ErrWriter, zap.InfoLevel, zapcore.NewConsoleEncoder), natsAdvice())
	}
	out := show(c.App.Writer)
	result, err := demo.Run(c.Context, demo.Config{Agents: c.Int("agents"), Lie: lie, Carrier: carrier, Log: log, Step: out.step})
	if err != nil {
		return err
	}
	if err := out.result(result); err != nil {
		return err
	}
	if n := len(result.Differences); n > 0 {
		return fmt.Errorf("demo: %s in %s", shell.Count(n, "difference"), shell.Count(result.Objects, "object"))
	}
	return nil
}

// A show is one form of the demonstration's output.
type show interface {
	step(demo.Step)
	result(demo.Result) error
}

// A table is a show for people: each step has its line as soon as it has been played.
type table struct{ w io.Writer }

func newTable(w io.Writer) show {
	fmt.Fprint(w, "A principal and its agents in one process. Programs, messages, certificates and disks are\n"+
		"real. Memory stores stand for the clusters; on each workload cluster a stand-in for Argo CD's\n"+
		"application controller deploys nothing, and writes the status of what it would have deployed.\n\n")
	t := table{w}
	t.line("STEP", "TIME", "STATES", "OTHERS", "WHAT HAPPENED")
	return t
}

func (t table) line(step, time, states, others, what string) {
	fmt.Fprintf(t.w, "%-22s %8s %7s %7s   %s\n", step, time, states, others, what)
}

func (t table) step(s demo.Step) {
	t.line(s.Title, milliseconds(s.Took), fmt.Sprint(s.Messages.States), fmt.Sprint(s.Messages.Others), s.What)
}

func (t table) result(r demo.Result) error {
	fmt.Fprintf(t.w, "\nSTATES are messages about objects that crossed a link, OTHERS those by which two sides compare\n"+
		"what they have. All of it took %s. Both sides, read afresh and compared with a table of what must be\n"+
		"there:\n\n", milliseconds(r.Took))
	for _, d := range r.Differences {
		fmt.Fprintf(t.w, "  %s\n", d)
	}
	_, err := fmt.Fprintf(t.w, "%s in %s\n", shell.Count(len(r.Differences), "difference"), shell.Count(r.Objects, "object"))
	return err
}

func milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds(), " ms") }

// A document is a show for programs.
type document struct {
	w       io.Writer
	Steps   []documentStep `json:"steps"`
	Took    int64          `json:"milliseconds"`
	Objects int            `json:"objects"`
	// Differences is how many there are, and Found says which.
	Differences int      `json:"differences"`
	Found       []string `json:"found"`
}

type documentStep struct {
	Step     string        `json:"step"`
	What     string        `json:"what"`
	Took     int64         `json:"milliseconds"`
	Messages demo.Messages `json:"messages"`
}

func newJSON(w io.Writer) show { return &document{w: w, Found: []string{}} }

func (d *document) step(s demo.Step) {
	d.Steps = append(d.Steps, documentStep{Step: s.Title, What: s.What, Took: s.Took.Milliseconds(), Messages: s.Messages})
}

func (d *document) result(r demo.Result) error {
	d.Took, d.Objects, d.Differences, d.Found = r.Took.Milliseconds(), r.Objects, len(r.Differences), append(d.Found, r.Differences...)
	return shell.JSON(d.w, d)
}
