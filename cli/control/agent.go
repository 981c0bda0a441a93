package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

func agentCommand() *cli.Command {
	return &cli.Command{
		Name:  "agent",
		Usage: "say which agents there are, and see to one of them",
		Subcommands: []*cli.Command{
			{
				Name:      "create",
				Usage:     "register an agent",
				ArgsUsage: "NAME",
				Flags: together(rosterFlags(), registerFlags(), []cli.Flag{
					&cli.StringFlag{Name: "mode", Value: "managed", Usage: "the `mode` of the agent: managed (Applications are written on the control plane) or autonomous (on its own cluster); the agent is to be started with the same --agent-mode, whose default is autonomous"},
				}),
				Action: createAgent,
				Description: "Registers the agent NAME on the control plane: makes the namespace NAME, in which its\n" +
					"Applications live, and the cluster Secret cluster-NAME. From then on it may connect.\n\n" +
					"In the cluster Secret is a token by which Argo CD sees the agent's cluster. The key that signs it is\n" +
					"made if there is none yet, see argocd-agentctl jwt create-key.\n\n" +
					"   argocd-agentctl agent create edge-1 --mode managed\n" +
					"   argocd-agentctl agent create edge-1 --agents-file ./agents.yaml",
			},
			{
				Name:  "list",
				Usage: "list the registered agents, or those that wait to be",
				Flags: together(principalFlags(), rosterFlags(), []cli.Flag{
					&cli.BoolFlag{Name: "waiting", Usage: "list the agents that have proven their names and wait to be registered, as the running principal says"},
					&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "the `form` of the list: table or json"},
				}),
				Before: shell.NoArguments,
				Action: listAgents,
				Description: "   argocd-agentctl agent list\n" +
					"   argocd-agentctl agent list --waiting\n\n" +
					"Registered agents it finds by itself. Of those that wait only the principal knows." + askHelp,
			},
			inspectCommand(),
			reconfigureCommand(),
			printTLSCommand(),
			deleteCommand(),
			approveRegistrationCommand(),
			approveCommand(),
			releaseCommand(),
		},
	}
}

// registerFlags are those of commands that register an agent.
func registerFlags() []cli.Flag {
	return append(tokenFlags(),
		&cli.BoolFlag{Name: "without-token", Usage: "leave the cluster Secret without the token by which Argo CD is let to the agent's cluster"},
		&cli.StringFlag{Name: "resource-proxy-server", Value: "argocd-agent-resource-proxy:9090", Usage: "`host:port` under which Argo CD on the control plane sees the agent's cluster"},
		&cli.BoolFlag{Name: "adopt-namespace", Usage: "use the namespace NAME although it was there before the agent"},
	)
}

func createAgent(c *cli.Context) error {
	name, err := shell.Argument(c, "the agent's name")
	if err != nil {
		return err
	}
	if err := identity.CheckName(name); err != nil {
		return &shell.UsageError{Where: "agent create", What: err.Error(), Advice: "choose another name"}
	}
	mode, err := shell.Choice(c, "mode", map[string]resource.Mode{"managed": resource.Managed, "autonomous": resource.Autonomous})
	if err != nil {
		return err
	}
	r, err := openRoster(c)
	if err != nil {
		return err
	}
	if err := r.add(c, kubestore.NewAgent{Agent: backend.Agent{Name: name, Mode: mode}}); err != nil {
		return again(c.Context, r, name, err)
	}
	_, err = fmt.Fprintf(c.App.Writer, "registered %s agent %s\n", mode, name)
	return err
}

// again says which agent there is already, if that is why it could not be added.
func again(ctx context.Context, r roster, name string, err error) error {
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	agents, unread := r.list(ctx)
	i := slices.IndexFunc(agents, func(a backend.Agent) bool { return a.Name == name })
	if unread != nil || i < 0 {
		return err
	}
	return fmt.Errorf("agent %s is registered already (%s): use it as it is, or choose another name; argocd-agentctl agent list shows all", name, agents[i].Mode)
}

func listAgents(c *cli.Context) error {
	show, err := shell.Choice(c, "output", map[string]func(*cli.Context, []backend.Agent) error{"table": showTable, "json": showJSON})
	if err != nil {
		return err
	}
	if c.Bool("waiting") {
		return listApplicants(c)
	}
	r, err := openRoster(c)
	if err != nil {
		return err
	}
	agents, err := r.list(c.Context)
	if err != nil {
		return err
	}
	return show(c, agents)
}

func listApplicants(c *cli.Context) error {
	waits, err := applicantsOf(c)
	if err != nil {
		return err
	}
	if c.String("output") == "json" {
		return shell.JSON(c.App.Writer, waits)
	}
	return showApplicants(c.App.Writer, waits)
}

func showTable(c *cli.Context, agents []backend.Agent) error {
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tMODE")
	for _, a := range agents {
		fmt.Fprintf(w, "%s\t%s\n", a.Name, a.Mode)
	}
	return w.Flush()
}

func showJSON(c *cli.Context, agents []backend.Agent) error {
	type row struct {
		Name string `json:"name"`
		Mode string `json:"mode"`
	}
	rows := make([]row, 0, len(agents))
	for _, a := range agents {
		rows = append(rows, row{Name: a.Name, Mode: a.Mode.String()})
	}
	return shell.JSON(c.App.Writer, rows)
}
