package control

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name:  "verify",
		Usage: "prove that both sides have the same, or list in what they differ",
		Flags: principalFlags(agentFlag(), outputFlag("table", "json", "yaml"),
			&cli.DurationFlag{Name: "settle", Value: 10 * time.Second, Action: shell.Checked("settle", settling), Usage: "the `duration` that differences may take to go: what is on its way differs for a moment"}),
		Before: shell.NoArguments,
		Action: verify,
		Description: "Reads the stores of both sides afresh, the agents' through the link, and compares them by code\n" +
			"of its own. It ends with 0 if there is no difference, and with 1 if there is one for longer\n" +
			"than --settle, or if an agent cannot be asked because it is away. Each difference is a line,\n" +
			"with its likely reason.\n\n" +
			"   argocd-agentctl verify\n" +
			"   argocd-agentctl verify --agent edge-1" + askHelp,
	}
}

// settling is the shell.Check of how long that may take.
func settling(flag string, v time.Duration) error {
	if v < 0 || v > admin.MaxSettle {
		return &shell.UsageError{Where: "--" + flag, What: fmt.Sprintf("%v is not from 0 to %v", v, admin.MaxSettle), Advice: "write a duration such as 10s"}
	}
	return nil
}

// compared is how many agents are compared at once.
const compared = 4

func verify(c *cli.Context) error {
	show, err := formOf(c, map[string]form{"table": differences})
	if err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	names := []string{c.String("agent")}
	if names[0] == "" {
		all, err := p.Agents(c.Context)
		if err != nil {
			return asked(c, err)
		}
		names = names[:0]
		for _, a := range all.Agents {
			names = append(names, a.Name)
		}
		if len(names) == 0 {
			return errors.New("control: nothing was compared: the principal knows of no agent; see argocd-agentctl agent list")
		}
	}
	verdicts := make([]admin.Verdict, len(names))
	g, ctx := errgroup.WithContext(c.Context)
	g.SetLimit(compared)
	for i, name := range names {
		g.Go(func() (err error) {
			verdicts[i], err = p.Verify(ctx, name, c.Duration("settle"))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return asked(c, err)
	}
	if err := show(c.App.Writer, verdicts); err != nil {
		return err
	}
	if said, well := sum(verdicts); !well {
		return errors.New("control: " + said)
	}
	return nil
}

// differences writes a line for each difference, and their number.
func differences(w io.Writer, v any) error {
	verdicts := v.([]admin.Verdict)
	for _, v := range verdicts {
		if v.Error != "" {
			fmt.Fprintf(w, "%s: not compared: %s\n", v.Agent, shell.Line(v.Error))
		}
		for _, d := range v.Differences {
			fmt.Fprintf(w, "%s: %s\n", v.Agent, shell.Line(d.String()))
		}
	}
	said, _ := sum(verdicts)
	_, err := fmt.Fprintln(w, said)
	return err
}

// sum says how many differences there are, and whether all is well.
func sum(verdicts []admin.Verdict) (said string, well bool) {
	found, objects, silent := 0, 0, 0
	for _, v := range verdicts {
		found += len(v.Differences)
		objects += v.Objects
		if v.Error != "" {
			silent++
		}
	}
	said = shell.Count(found, "difference") + " in " + shell.Count(objects, "object")
	if silent > 0 {
		said += fmt.Sprintf(", and %d of %s not compared", silent, shell.Count(len(verdicts), "agent"))
	}
	return said, found+silent == 0
}
