package control

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

func deleteCommand() *cli.Command {
	return &cli.Command{
		Name:      "delete",
		Usage:     "unregister an agent",
		ArgsUsage: "NAME",
		Flags: together(rosterFlags(), blocklistFlags(), principalFlags(
			&cli.BoolFlag{Name: "revoke", Usage: "put the agent's name on the blocklist, too: its certificate lets nobody in, even if an agent of that name is registered again"},
			&cli.StringFlag{Name: "reason", Usage: "a `text` that says why, for the blocklist"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
		)),
		Action: unregister,
		Description: "Deletes the cluster Secret of the agent NAME, once you agree. The principal then cuts it off and\n" +
			"forgets all that it keeps for it: what is on the way to it, its copy of what the agent has said,\n" +
			"and dead letters. Applications stay on both sides as they are, as do the namespace NAME and, on its\n" +
			"own cluster, the agent's Deployment and Secrets. Registered again, it begins anew.\n\n" +
			"   argocd-agentctl agent delete edge-1\n" +
			"   argocd-agentctl agent delete edge-1 --revoke --reason 'the ship was sold' --yes" + askHelp,
	}
}

func unregister(c *cli.Context) error {
	r, is, err := registeredAs(c)
	if err != nil {
		return err
	}
	if c.String("reason") != "" && !c.Bool("revoke") {
		return &shell.UsageError{Where: "--reason", What: "is for the blocklist", Advice: "add --revoke, or leave it out"}
	}
	if c.Bool("revoke") && c.String("agents-file") != "" && c.String("blocklist-file") == "" {
		return &shell.UsageError{Where: "--revoke", What: "it is not said where the blocklist is", Advice: "add --blocklist-file"}
	}
	if err := foretell(c, is); err != nil {
		return err
	}
	if sure, err := confirmed(c, "unregister agent "+is.Name+"?"); err != nil || !sure {
		return err
	}
	if err := revoke(c, is.Name); err != nil {
		return err // it is registered still
	}
	if err := r.remove(c.Context, is.Name); err != nil {
		return unknown(is.Name, err)
	}
	_, err = fmt.Fprintf(c.App.Writer, "unregistered %s agent %s\n", is.Mode, is.Name)
	return err
}

// foretell says what becomes of what there is of an agent.
func foretell(c *cli.Context, is registration) error {
	w := c.App.Writer
	fmt.Fprintf(w, "%s agent %s (%s): the principal cuts it off, and forgets what it keeps for it: messages that wait, its copy of the agent's, dead letters\n", is.Mode, is.Name, is.Where)
	fmt.Fprintf(w, "Applications stay on both sides, as do their workloads, and the agent's own Deployment and Secrets\n")
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	a, err := p.Agent(c.Context, is.Name)
	switch {
	case errors.Is(err, admin.ErrSilent):
		fmt.Fprintln(w, "how it stands is not known: the principal does not answer at", c.String("principal-address"))
	case err != nil: // it answers, and knows no such agent: nothing waits there
	default:
		fmt.Fprintf(w, "connected: %s; deletions that wait for it: %d; dead letters: %d\n", yes(a.Connected), len(a.Waiting), a.Hub.DeadLetters)
		if len(a.Waiting) > 0 {
			fmt.Fprintf(w, "what waits keeps its finalizers, and is nobody's then: argocd-agentctl agent release-deletions %s lets it go before\n", is.Name)
		}
	}
	return nil
}

// revoke puts an agent on the blocklist, if that is asked for.
func revoke(c *cli.Context, name string) error {
	if !c.Bool("revoke") {
		return nil
	}
	list, err := openBlocklist(c)
	if err != nil {
		return err
	}
	err = list.Block(c.Context, func(is map[string]string) error {
		if _, there := is[name]; !there || c.String("reason") != "" {
			is[name] = c.String("reason")
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "blocked %s; argocd-agentctl blocklist remove %[1]s lets an agent of that name in again\n", name)
	return err
}
