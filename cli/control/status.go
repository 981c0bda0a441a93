package control

import (
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
			"when it is away), whether the control plane has all that the agent has said (in step), how many\n" +
			"objects each side has to say something of, and what waits for somebody: objects whose writes\n" +
			"fail, deletions that are held, dead letters.\n\n" +
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
	heads := []string{"AGENT", "MODE", "STATE", "CONNECTED", "SINCE", "IN STEP", "ROWS", "COPIED", "RETRYING", "HELD", "DEAD LETTERS"}
	if wide {
		heads = append(heads, "VERSION", "PROCESS")
	}
	t, now := newTable(w, append(heads, "ERROR")...), time.Now()
	for _, a := range all.Agents {
		cells := []any{a.Name, a.Mode, a.State, yes(a.Connected), ago(now, a.Since), yes(a.Hub.InStep), a.Hub.Rows, a.Hub.Copied, a.Hub.Retrying, len(a.Held), a.Hub.DeadLetters}
		if wide {
			cells = append(cells, a.Version, a.Process)
		}
		t.row(append(cells, a.Error)...)
	}
	return t.w.Flush()
}
