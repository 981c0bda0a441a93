package control

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "say how all agents stand",
		Flags: principalFlags(
			outputFlag("table", "wide", "json", "yaml"),
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "show it again and again: in place on a terminal, else one after the other"},
			&cli.DurationFlag{Name: "interval", Value: 2 * time.Second, Action: shell.Checked("interval", shell.Positive), Usage: "how often, a `duration`, with --watch"},
			&cli.StringFlag{Name: "sort", Value: "name", Usage: "what comes first: the `order` of " + strings.Join(orderNames(), ", ")},
			&cli.StringFlag{Name: "only", Action: shell.Checked("only", shell.Listed), Usage: "show `those` agents only that are " + strings.Join(choiceNames(), ", ") + ", or several of these with a comma between them"},
		),
		Before: shell.NoArguments,
		Action: status,
		Description: "Shows every registered agent: whether its process answers and since when (LINK: up, away, or never\n" +
			"as long as the principal has run); for how long the oldest change has waited that has not arrived\n" +
			"(LAG) and how many objects have one (BACKLOG), down to the agent and up from it; what waits for\n" +
			"somebody on either side: objects whose writes fail (RETRY), deletions that are held until they are\n" +
			"approved (HELD), deletions that wait until the agent has carried them out (WAIT), and what could\n" +
			"not be done at all (DEAD); the agent's version, the protocol versions it speaks (PROTO), and for how\n" +
			"long the certificate is good by which it has proved its name (CERT). A question mark is what nobody\n" +
			"can say now, and + what there may be more of, from before the principal began. -o wide shows it\n" +
			"whole, and what fails.\n\n" +
			"   argocd-agentctl status\n" +
			"   argocd-agentctl status --watch --sort lag --only behind,failing\n" +
			"   argocd-agentctl status -o json" + askHelp,
	}
}

func status(c *cli.Context) error {
	choose, err := chooserOf(c)
	if err != nil {
		return err
	}
	interval := c.Duration("interval")
	var on screen // anything, but for a terminal that is watched
	show, err := formOf(c, map[string]form{
		"table": func(w io.Writer, v any) error { return fleet(w, v.(choice), false, on.rows) },
		"wide":  func(w io.Writer, v any) error { return fleet(w, v.(choice), true, on.rows) },
	})
	if err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	table := !slices.Contains([]string{"json", "yaml"}, c.String("output"))
	once := func(ctx context.Context, w io.Writer) error {
		all, err := p.Agents(ctx)
		if err != nil {
			return asked(c, err)
		}
		chosen := choose(all)
		if table {
			return show(w, chosen)
		}
		all.Agents = chosen.shown
		return show(w, all)
	}
	if !c.Bool("watch") {
		return once(c.Context, c.App.Writer)
	}
	return watcher{interval: interval, screen: func() screen {
		if on = screenOf(c.App.Writer); !table {
			on = screen{}
		}
		return on
	}}.run(c.Context, c.App.Writer, once)
}

// A choice is what is shown of a fleet, and in which order.
type choice struct {
	all   admin.Agents
	shown []admin.Agent
}

// chooserOf returns what the flags choose.
func chooserOf(c *cli.Context) (func(admin.Agents) choice, error) {
	order, err := shell.Choice(c, "sort", orders)
	if err != nil {
		return nil, err
	}
	var those []func(admin.Agent) bool
	for _, name := range shell.List(c.String("only")) {
		f, ok := choices[name]
		if !ok {
			return nil, &shell.UsageError{Where: "--only", What: "\"" + name + "\" is none of its values", Advice: "choose of " + strings.Join(choiceNames(), ", ")}
		}
		those = append(those, f)
	}
	return func(all admin.Agents) choice {
		shown := slices.DeleteFunc(slices.Clone(all.Agents), func(a admin.Agent) bool {
			return len(those) > 0 && !slices.ContainsFunc(those, func(is func(admin.Agent) bool) bool { return is(a) })
		})
		slices.SortStableFunc(shown, order)
		return choice{all, shown}
	}, nil
}
