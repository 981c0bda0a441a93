package control

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

func releaseCommand() *cli.Command {
	return &cli.Command{
		Name:      "release-deletions",
		Usage:     "let Applications go whose deletion waits for an agent that is gone for good",
		ArgsUsage: "NAME",
		Flags: principalFlags(
			&cli.StringFlag{Name: "reason", Usage: "a `text` that says why, for the principal's log; it has to be given"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
		),
		Action: release,
		Description: "An Application that is deleted with what it has deployed waits on the control plane until its\n" +
			"agent has carried that out, for as long as the agent is away. This shows those that wait and,\n" +
			"once you agree, takes Argo CD's finalizer off them, so that they vanish. Nothing is deleted on\n" +
			"the agent's cluster: if the agent comes back after all, the copies go, and what they have\n" +
			"deployed stays. The principal's log has each of them, and the reason.\n\n" +
			"If nothing waits it says so, and ends with 0. While the agent is there nothing is forced.\n\n" +
			"   argocd-agentctl agent release-deletions edge-1 --reason 'the cluster was scrapped'" + askHelp,
	}
}

func release(c *cli.Context) error {
	reason, err := shell.Needed(c, "reason", "say why, for those who read the log")
	if err != nil {
		return err
	}
	p, a, err := agentOf(c)
	if err != nil {
		return err
	}
	if len(a.Waiting) == 0 {
		_, err = fmt.Fprintf(c.App.Writer, "no deletion waits for agent %s\n", a.Name)
		return err
	}
	t := newTable(c.App.Writer, "APPLICATION", "UID")
	for _, w := range a.Waiting {
		t.row(w.Key, w.UID)
	}
	if err := t.w.Flush(); err != nil {
		return err
	}
	if sure, err := confirmed(c, fmt.Sprintf("let these %d go, and leave on the cluster what they have deployed?", len(a.Waiting))); err != nil || !sure {
		return err
	}
	done, err := p.Release(c.Context, a, reason)
	if err != nil {
		return asked(c, err)
	}
	_, err = fmt.Fprintf(c.App.Writer, "released %s of agent %s\n", shell.Count(len(done.Objects), "deletion"), a.Name)
	return err
}
