package control

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

func reconfigureCommand() *cli.Command {
	return &cli.Command{
		Name:      "reconfigure",
		Usage:     "change how an agent is registered, or make its certificate or its token anew",
		ArgsUsage: "NAME|--all",
		Flags: together(rosterFlags(), []cli.Flag{
			&cli.StringSliceFlag{Name: "label", Action: shell.Checked("label", shell.EachGiven), Usage: "set a label of the cluster Secret, as `KEY=VALUE`, or take it off, as KEY-; may be repeated"},
			&cli.StringFlag{Name: "resource-proxy-server", Usage: "`host:port` under which Argo CD on the control plane is to see the agent's cluster"},
			&cli.StringFlag{Name: "mode", Usage: "the `mode` that the agent is to have: one that it has not is refused, with what to do instead"},
			&cli.BoolFlag{Name: "reissue", Usage: "make another certificate, as pki issue agent NAME --upsert does, with the flags of that"},
			&cli.BoolFlag{Name: "reissue-token", Usage: "make another token by which Argo CD sees the agent's cluster, in its cluster Secret, of the key that there is now"},
			&cli.BoolFlag{Name: "all", Usage: "do so for all agents, with --reissue-token"},
		}, tokenFlags(), vaultFlags(), agentClusterFlags(), []cli.Flag{daysFlag(180), keyFlag(), uriFlag()}),
		Action: reconfigure,
		Description: "Changes what is given, and leaves the rest. Labels are what ApplicationSets choose clusters by. A\n" +
			"certificate that is made anew is used within seconds, without a restart; the one before stays good\n" +
			"until it expires, or is put on the blocklist. A token stays good for as long as the key that has\n" +
			"signed it is there, see argocd-agentctl jwt.\n\n" +
			"The mode cannot be changed in place: it says on which side Applications are written, and those of\n" +
			"one side would be taken for copies of the other's.\n\n" +
			"   argocd-agentctl agent reconfigure edge-1 --label region=north --label tier-\n" +
			"   argocd-agentctl agent reconfigure edge-1 --reissue --agent-context edge-1 --key-algorithm ed25519\n" +
			"   argocd-agentctl agent reconfigure edge-1 --reissue-token\n" +
			"   argocd-agentctl agent reconfigure --all --reissue-token",
	}
}

func reconfigure(c *cli.Context) error {
	if c.Bool("all") {
		return reissueAll(c)
	}
	r, is, err := registeredAs(c)
	if err != nil {
		return err
	}
	change, err := changeOf(c)
	if err != nil {
		return err
	}
	if err := sameMode(c, is); err != nil {
		return err
	}
	registered := change.Proxy != "" || len(change.Labels)+len(change.Drop) > 0
	if !registered && !c.Bool("reissue") && !c.Bool("reissue-token") {
		return &shell.UsageError{Where: "agent reconfigure", What: "nothing is to be changed", Advice: "add --label, --resource-proxy-server, --reissue-token or --reissue"}
	}
	if registered {
		if is, err = r.change(c.Context, is.Name, change); err != nil {
			return unknown(is.Name, err)
		}
		fmt.Fprintf(c.App.Writer, "reconfigured %s agent %s\n", is.Mode, is.Name)
	}
	if c.Bool("reissue-token") {
		if err := reissueToken(c, r, is.Name); err != nil {
			return err
		}
	}
	if c.Bool("reissue") {
		return issueFor(c, is.Name, true)
	}
	return nil
}

// reissueToken makes an agent's token anew.
func reissueToken(c *cli.Context, r roster, name string) error {
	is, err := r.renew(c, name)
	if err != nil {
		return unknown(name, err)
	}
	_, err = fmt.Fprintf(c.App.Writer, "wrote another token into %s\n", is.Where)
	return err
}

// reissueAll makes the tokens of all agents anew. One that fails does not keep the others from
// theirs.
func reissueAll(c *cli.Context) error {
	bad := func(where, what, advice string) error {
		return &shell.UsageError{Where: where, What: what, Advice: advice}
	}
	switch {
	case len(shell.Arguments(c)) > 0:
		return bad("agent reconfigure", "an agent and --all are given", "give one of them")
	case !c.Bool("reissue-token"):
		return bad("--all", "it is for --reissue-token", "name the agent that is meant")
	case c.Bool("reissue"), c.IsSet("label"), c.IsSet("resource-proxy-server"), c.IsSet("mode"):
		return bad("--all", "what else is given is for one agent", "leave it out, or name the agent")
	}
	r, err := openRoster(c)
	if err != nil {
		return err
	}
	agents, err := r.list(c.Context)
	errs := []error{err} // some may be unreadable
	for _, a := range agents {
		errs = append(errs, reissueToken(c, r, a.Name))
	}
	return errors.Join(errs...)
}

// changeOf returns what is to be changed of a registration.
func changeOf(c *cli.Context) (kubestore.Change, error) {
	change := kubestore.Change{Proxy: c.String("resource-proxy-server"), Labels: map[string]string{}}
	for _, text := range c.StringSlice("label") {
		key, value, set := strings.Cut(text, "=")
		bare, drop := strings.CutSuffix(key, "-")
		switch {
		case set && key != "":
			change.Labels[key] = value
		case !set && drop && bare != "":
			change.Drop = append(change.Drop, bare)
		default:
			return change, &shell.UsageError{Where: "--label", What: fmt.Sprintf("%q is no label", text), Advice: "write KEY=VALUE to set one, KEY- to take it off"}
		}
	}
	return change, nil
}

// sameMode refuses to change the mode of an agent.
func sameMode(c *cli.Context, is registration) error {
	if !c.IsSet("mode") {
		return nil
	}
	if _, err := shell.Choice(c, "mode", map[string]bool{"managed": true, "autonomous": true}); err != nil || c.String("mode") == is.Mode {
		return err
	}
	return fmt.Errorf("agent %s is %s, and nothing was changed: an agent's Applications are written on one side, and would be taken for copies of the other's; "+
		"stop the agent, see to its Applications on both sides, then argocd-agentctl agent delete %[1]s, agent create %[1]s --mode %[3]s, and start it with --agent-mode %[3]s", is.Name, is.Mode, c.String("mode"))
}
