package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

func deadletterCommand() *cli.Command {
	sideFlag := &cli.StringFlag{Name: "side", Usage: "the only `side` that is meant: hub or spoke"}
	allFlag := &cli.BoolFlag{Name: "all", Usage: "all that there are, of --agent and --side if they are given"}
	return &cli.Command{
		Name:  "deadletter",
		Usage: "see to what could not be done",
		Subcommands: []*cli.Command{
			{
				Name:   "list",
				Usage:  "list the dead letters of both sides",
				Flags:  principalFlags(agentFlag(), sideFlag, outputFlag("table", "json", "yaml")),
				Before: shell.NoArguments,
				Action: listLetters,
				Description: "A dead letter says what one side could not take in or hand over, and why. Mend the cause and\n" +
					"retry it; it goes once that has succeeded. Those of an agent that is away cannot be read: that is\n" +
					"said and, if it is the one that --agent names, ends with 1.\n\n" +
					"   argocd-agentctl deadletter list --agent edge-1" + askHelp,
			},
			{
				Name:        "show",
				Usage:       "show one dead letter whole, with the message that it is about",
				ArgsUsage:   "ID",
				Flags:       principalFlags(agentFlag(), sideFlag, outputFlag("yaml", "json")),
				Action:      showLetter,
				Description: "   argocd-agentctl deadletter show 0123456789ab" + askHelp,
			},
			{
				Name:      "retry",
				Usage:     "have what could not be done tried again",
				ArgsUsage: "ID",
				Flags:     principalFlags(agentFlag(), sideFlag, allFlag),
				Action:    changeLetters("retried", (*admin.Client).Retry),
				Description: "   argocd-agentctl deadletter retry 0123456789ab\n" +
					"   argocd-agentctl deadletter retry --all --agent edge-1" + askHelp,
			},
			{
				Name:      "drop",
				Usage:     "forget dead letters",
				ArgsUsage: "ID",
				Flags:     principalFlags(agentFlag(), sideFlag, allFlag),
				Action:    changeLetters("dropped", (*admin.Client).Drop),
				Description: "What could not be done stays undone, and is not told again before there is another reason.\n\n" +
					"   argocd-agentctl deadletter drop 0123456789ab" + askHelp,
			},
		},
	}
}

// lettersOf returns the letters that a command's flags leave, and says of which agents the
// spoke's are not among them.
func lettersOf(c *cli.Context, p *admin.Client) (admin.Letters, error) {
	side := c.String("side")
	if side != "" && side != admin.HubSide && side != admin.SpokeSide {
		return admin.Letters{}, &shell.UsageError{Where: "--side", What: fmt.Sprintf("%q is none of its values", side), Advice: "choose one of hub, spoke"}
	}
	all, err := p.Letters(c.Context, c.String("agent"))
	if err != nil {
		return all, asked(c, err)
	}
	if side != "" {
		all.Letters = slices.DeleteFunc(all.Letters, func(l admin.Letter) bool { return l.Side != side })
	}
	if side != admin.HubSide {
		for _, name := range slices.Sorted(maps.Keys(all.Unread)) {
			fmt.Fprintf(c.App.ErrWriter, "%s: without those of agent %s's own side: %s\n", c.App.Name, name, shell.Line(all.Unread[name]))
		}
	}
	return all, nil
}

func listLetters(c *cli.Context) error {
	show, err := formOf(c, map[string]form{"table": letterTable})
	if err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	all, err := lettersOf(c, p)
	if err != nil {
		return err
	}
	return errors.Join(show(c.App.Writer, all), partial(c, all))
}

// partial returns an error if the letters of the one agent that was asked for could not all
// be read. In a fleet there is always one that is away.
func partial(c *cli.Context, all admin.Letters) error {
	name := c.String("agent")
	if c.String("side") == admin.HubSide || all.Unread[name] == "" {
		return nil
	}
	return fmt.Errorf("control: agent %s's own side could not be asked", name)
}

func letterTable(w io.Writer, v any) error {
	t, now := newTable(w, "ID", "AGENT", "SIDE", "OBJECT", "CAUSE", "FIRST", "LAST", "REASON"), time.Now()
	for _, l := range v.(admin.Letters).Letters {
		t.row(l.ID, l.Agent, l.Side, l.Key, l.Cause, ago(now, l.First), ago(now, l.Last), l.Reason)
	}
	return t.w.Flush()
}

// letterOf returns the letter with an id, of those that the command's flags leave.
func letterOf(c *cli.Context, p *admin.Client, id string) (admin.Letter, error) {
	all, err := lettersOf(c, p)
	if err != nil {
		return admin.Letter{}, err
	}
	those := slices.DeleteFunc(all.Letters, func(l admin.Letter) bool { return l.ID != id })
	switch len(those) {
	case 0:
		return admin.Letter{}, errors.Join(partial(c, all), fmt.Errorf("control: there is no dead letter %q; see argocd-agentctl deadletter list", id))
	case 1:
		return those[0], nil
	}
	return admin.Letter{}, &shell.UsageError{
		Where:  commandName(c),
		What:   fmt.Sprintf("agents %s and %s both have a dead letter %s", those[0].Agent, those[1].Agent, id),
		Advice: "say which is meant by --agent, and by --side if need be",
	}
}

func commandName(c *cli.Context) string { return "deadletter " + c.Command.Name }

func showLetter(c *cli.Context) error {
	id, err := shell.Argument(c, "the dead letter's id")
	if err != nil {
		return err
	}
	show, err := formOf(c, nil)
	if err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	l, err := letterOf(c, p, id)
	if err != nil {
		return err
	}
	if l, err = p.Letter(c.Context, l); err != nil {
		return asked(c, err)
	}
	return show(c.App.Writer, l)
}

// changeLetters returns the action of a command that does something about one letter or
// all.
func changeLetters(did string, change func(*admin.Client, context.Context, admin.Letter) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		those, p, failed, err := chosen(c)
		if err != nil {
			return err
		}
		done := 0
		for _, l := range those {
			if err := change(p, c.Context, l); err != nil {
				failed = fmt.Errorf("control: %s of agent %s: %w", l.ID, l.Agent, asked(c, err))
				continue
			}
			done++
		}
		if _, err := fmt.Fprintf(c.App.Writer, "%s %d of %d dead letters\n", did, done, len(those)); err != nil {
			return err
		}
		return failed
	}
}

// chosen returns the letters that a command is about, and an error if some of them could not
// be read.
func chosen(c *cli.Context) (those []admin.Letter, p *admin.Client, missing, err error) {
	id := ""
	if len(shell.Arguments(c)) > 0 || !c.Bool("all") {
		if id, err = shell.Argument(c, "the dead letter's id, or --all,"); err != nil {
			return nil, nil, nil, err
		}
		if c.Bool("all") {
			return nil, nil, nil, &shell.UsageError{Where: commandName(c), What: "an id and --all are given", Advice: "give one of them"}
		}
	}
	if p, err = principalOf(c); err != nil {
		return nil, nil, nil, err
	}
	if id == "" {
		all, err := lettersOf(c, p)
		return all.Letters, p, partial(c, all), err
	}
	l, err := letterOf(c, p, id)
	return []admin.Letter{l}, p, nil, err
}
