package control

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
)

func planCommand() *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "show what an agent would change on its cluster",
		ArgsUsage: "AGENT",
		Flags:     principalFlags(outputFlag("diff", "table", "json", "yaml")),
		Action:    showPlan,
		Description: "An agent that was started with --observe changes nothing on its cluster. This shows, for each\n" +
			"object, what it would do by now: create, change, take over, delete or recreate it; with the\n" +
			"difference between what is there and what would be. Values in Secrets are not shown. What is\n" +
			"right is adopted with argocd-agentctl adopt, or all of it by an agent without --observe.\n\n" +
			"It ends with 0 whether or not there is anything to change, and with 1 if the agent cannot be\n" +
			"asked. Of an agent that does not observe it shows what it is about to change.\n\n" +
			"   argocd-agentctl plan edge-1\n" +
			"   argocd-agentctl plan edge-1 -o table" + askHelp,
	}
}

func showPlan(c *cli.Context) error {
	name, err := shell.Argument(c, "the agent's name")
	if err != nil {
		return err
	}
	show, err := formOf(c, map[string]form{"diff": planDiff, "table": planTable})
	if err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	plan, err := p.Plan(c.Context, name)
	if err != nil {
		return asked(c, err)
	}
	return show(c.App.Writer, plan)
}

// planDiff writes each step with its diff, and the sum.
func planDiff(w io.Writer, v any) error {
	p := v.(admin.Plan)
	for _, s := range p.Steps {
		fmt.Fprintf(w, "%s %s%s\n", shell.Line(string(s.Action)), shell.Line(s.Object()), shell.Line(noted(s)))
		for line := range strings.Lines(s.Diff) {
			fmt.Fprintln(w, shell.Line(strings.TrimSuffix(line, "\n")))
		}
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintln(w, planSum(p))
	return err
}

// noted returns what else there is to say of a step.
func noted(s inquiry.Step) string {
	notes := s.Notes
	if s.Adopted {
		notes = append(notes, "it is about to be written")
	}
	if len(notes) == 0 {
		return ""
	}
	return ": " + strings.Join(notes, ", ")
}

func planTable(w io.Writer, v any) error {
	p := v.(admin.Plan)
	t := newTable(w, "ACTION", "OBJECT", "NOTES")
	for _, s := range p.Steps {
		t.row(s.Action, s.Object(), strings.TrimPrefix(noted(s), ": "))
	}
	if err := t.w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, planSum(p))
	return err
}

// planSum says in a line what a plan comes to.
func planSum(p admin.Plan) string {
	what := "nothing"
	if len(p.Steps) > 0 {
		what = shell.Count(len(p.Steps), "object")
	}
	said := fmt.Sprintf("agent %s does not observe, and is about to change %s", p.Agent, what)
	if p.Observing {
		said = fmt.Sprintf("agent %s observes: it would change %s, and has adopted %d", p.Agent, what, len(p.Adopted))
	}
	if !p.Whole {
		said += "; it does not know yet all that the control plane has"
	}
	return said
}
