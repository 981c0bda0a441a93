package control

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

// askHelp ends the help of every command that asks a running principal.
const askHelp = "\n\nIt asks the running principal, at the address that its --admin-listen names. In Kubernetes:\n\n" +
	"   kubectl -n argocd port-forward deployment/argocd-agent-principal 8404"

// principalFlags are those of commands that ask a running principal.
func principalFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		env.String("principal-address", "", "http://127.0.0.1:8404", "the `address` at which the principal is asked: http://host:port or unix:///path"),
	}, more...)
}

// outputFlag chooses a form, of which the first is the default.
func outputFlag(forms ...string) cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: forms[0], Usage: "the `form` of what is said: " + strings.Join(forms, ", ")}
}

// agentFlag narrows a command to one agent.
func agentFlag() cli.Flag {
	return &cli.StringFlag{Name: "agent", Usage: "the `name` of the only agent that is meant"}
}

// principalOf returns the principal that a command's flags name.
func principalOf(c *cli.Context) (*admin.Client, error) {
	p, err := admin.NewClient(c.String("principal-address"))
	if err != nil {
		return nil, &shell.UsageError{Where: "--principal-address", What: err.Error(), Advice: "write http://host:port or unix:///path"}
	}
	return p, nil
}

// agentOf returns the agent that the command line names, as it stands, and whom to ask on.
func agentOf(c *cli.Context) (*admin.Client, admin.Agent, error) {
	name, err := shell.Argument(c, "the agent's name")
	if err != nil {
		return nil, admin.Agent{}, err
	}
	p, err := principalOf(c)
	if err != nil {
		return nil, admin.Agent{}, err
	}
	a, err := p.Agent(c.Context, name)
	if err != nil {
		return nil, admin.Agent{}, asked(c, err)
	}
	return p, a, nil
}

// asked says what to do about an error of a principal's that was asked.
func asked(c *cli.Context, err error) error {
	if errors.Is(err, admin.ErrSilent) {
		return fmt.Errorf("%w: %s; run this command where the principal runs, or forward its port (kubectl -n argocd port-forward deployment/argocd-agent-principal 8404), or name another --principal-address", err, c.String("principal-address"))
	}
	return err
}

// A form writes what a command has to say.
type form func(w io.Writer, v any) error

// forms are those that fit every answer.
func forms() map[string]form {
	return map[string]form{
		"json": shell.JSON,
		"yaml": func(w io.Writer, v any) error {
			text, err := yaml.Marshal(v)
			if err == nil {
				_, err = w.Write(text)
			}
			return err
		},
	}
}

// formOf returns the form that the command's flag chooses, which may be one of the tables.
func formOf(c *cli.Context, tables map[string]form) (form, error) {
	all := forms()
	for name, f := range tables {
		all[name] = f
	}
	return shell.Choice(c, "output", all)
}

// A table is written in columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, heads ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)}
	fmt.Fprintln(t.w, strings.Join(heads, "\t"))
	return t
}

// row adds a row. What agents say of themselves is in it too: whatever would not be seen,
// or would move the cursor, is replaced.
func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = shell.Line(fmt.Sprint(c))
	}
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(texts, "\t"), "\t"))
}

// ago says how long ago something was, "never" if it never was.
func ago(now, then time.Time) string {
	if then.IsZero() {
		return "never"
	}
	d := max(now.Sub(then), 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 2*day:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d/day))
}

// yes says whether something is so.
func yes(so bool) string {
	if so {
		return "yes"
	}
	return "no"
}
