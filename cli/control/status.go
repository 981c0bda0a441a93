package control

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:   "status",
		Usage:  "say how all agents stand",
		Flags:  principalFlags(outputFlag("table", "wide", "json", "yaml")),
		Before: shell.NoArguments,
		Action: status,
		Description: "Shows every registered agent: whether it is connected and since when (if it is not, since\n" +
			"when it is away, or never, as long as the principal has run), whether each side has all that the\n" +
			"other has said (IN STEP), how many objects the control plane says something of (ROWS) and how many\n" +
			"of the agent's it knows (COPIED), and what waits for somebody on either side: objects whose writes\n" +
			"fail (RETRYING), deletions that are held until they are approved (HELD), deletions that wait until\n" +
			"the agent has carried them out (WAITING), and what could not be done at all (DEAD LETTERS).\n" +
			"A question mark is what an agent that is away does not say.\n\n" +
			"   argocd-agentctl status\n" +
			"   argocd-agentctl status -o json" + askHelp,
	}
}

func status(c *cli.Context) error {
	show, err := formOf(c, map[string]form{"table": narrow, "wide": wide})
	if err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	agents, err := p.Agents(c.Context)
	if err != nil {
		return asked(c, err)
	}
	return show(c.App.Writer, agents)
}

func narrow(w io.Writer, v any) error { return fleet(w, v.(admin.Agents), false) }

func wide(w io.Writer, v any) error { return fleet(w, v.(admin.Agents), true) }

// fleet writes a table of agents.
func fleet(w io.Writer, all admin.Agents, wide bool) error {
	heads := []string{"AGENT", "MODE", "STATE", "CONNECTED", "SINCE", "IN STEP", "ROWS", "COPIED", "RETRYING", "HELD", "WAITING", "DEAD LETTERS"}
	if wide {
		heads = append(heads, "VERSION", "PROCESS")
	}
	t, now := newTable(w, append(heads, "ERROR")...), time.Now()
	for _, a := range all.Agents {
		// What the spoke does not say is not known, which is another thing than none.
		inStep, retrying, letters := "?", fmt.Sprint(a.Hub.Retrying, "+?"), fmt.Sprint(a.Hub.DeadLetters, "+?")
		if a.Spoke != nil && a.Spoke.Error == "" {
			inStep = yes(a.Hub.InStep && a.Spoke.InStep)
			retrying, letters = fmt.Sprint(a.Hub.Retrying+a.Spoke.Retrying), fmt.Sprint(a.Hub.DeadLetters+a.Spoke.DeadLetters)
		}
		cells := []any{a.Name, a.Mode, a.State, yes(a.Connected), ago(now, a.Since), inStep, a.Hub.Rows, a.Hub.Copied, retrying, len(a.Held), a.Hub.Waiting, letters}
		if wide {
			cells = append(cells, a.Version, a.Process)
		}
		t.row(append(cells, errorOf(a))...)
	}
	if err := t.w.Flush(); err != nil {
		return err
	}
	for _, a := range all.Agents {
		if line := stuck(now, a); line != "" {
			fmt.Fprintln(w, shell.Line(line))
		}
	}
	return nil
}

// stuck says how to go on with deletions that wait for an agent which is away.
func stuck(now time.Time, a admin.Agent) string {
	if a.Connected || a.Hub.Waiting == 0 {
		return ""
	}
	away := "which was not there since the principal started"
	if !a.Since.IsZero() {
		away = "which is away since " + a.Since.UTC().Format(time.RFC3339) + " (" + ago(now, a.Since) + ")"
	}
	return fmt.Sprintf("waiting for %s, %s: %s; if it is gone for good: argocd-agentctl agent release-deletions %[1]s --reason ...", a.Name, away, shell.Count(a.Hub.Waiting, "deletion"))
}

// errorOf returns what fails on either side.
func errorOf(a admin.Agent) string {
	switch {
	case a.Error != "":
		return a.Error
	case a.Spoke != nil && a.Spoke.Error != "":
		return "spoke: " + a.Spoke.Error
	}
	return ""
}
