package control

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func approveRegistrationCommand() *cli.Command {
	return &cli.Command{
		Name:      "approve",
		Aliases:   []string{"approve-registration"},
		Usage:     "register an agent that has asked for it",
		ArgsUsage: "NAME",
		Flags: together(principalFlags(&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"}), rosterFlags(), registerFlags(), []cli.Flag{
			&cli.StringFlag{Name: "mode", Usage: "the `mode` of an agent that does not say its own: managed or autonomous"},
		}),
		Action: approveRegistration,
		Description: "An agent that proves its name and is not registered waits, if the principal has\n" +
			"--enable-self-cluster-registration. This shows what it asks for and, once you agree, registers it\n" +
			"as agent create does, with your rights. It connects by itself within seconds. Its mode stays what\n" +
			"it is now, whatever it says later. Deletions that an agent holds are another matter: see\n" +
			"argocd-agentctl agent approve-deletions.\n\n" +
			"   argocd-agentctl agent list --waiting\n" +
			"   argocd-agentctl agent approve edge-9" + askHelp,
	}
}

func approveRegistration(c *cli.Context) error {
	name, err := shell.Argument(c, "the agent's name")
	if err != nil {
		return err
	}
	r, err := openRoster(c)
	if err != nil {
		return err
	}
	waits, err := applicantsOf(c)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(waits, func(a admin.Applicant) bool { return a.Name == name })
	if i < 0 {
		return fmt.Errorf("agent %s does not wait for its registration: argocd-agentctl agent list --waiting shows who does, and agent list who is registered", shell.Line(name))
	}
	mode, err := modeOf(c, waits[i])
	if err != nil {
		return err
	}
	if err := showApplicants(c.App.Writer, waits[i:i+1]); err != nil {
		return err
	}
	if sure, err := confirmed(c, fmt.Sprintf("register %s agent %s?", mode, name)); err != nil || !sure {
		return err
	}
	a := kubestore.NewAgent{Agent: backend.Agent{Name: name, Mode: mode}, Labels: waits[i].Labels, SelfRegistered: true}
	if err := r.add(c, a); err != nil {
		return again(c.Context, r, name, err)
	}
	_, err = fmt.Fprintf(c.App.Writer, "registered %s agent %s; it connects by itself\n", mode, name)
	return err
}

// modeOf returns the mode that an agent is to be registered in.
func modeOf(c *cli.Context, a admin.Applicant) (resource.Mode, error) {
	given := c.String("mode")
	switch {
	case given == "" && a.Mode == "":
		return 0, &shell.UsageError{Where: "--mode", What: fmt.Sprintf("is not given, and agent %s does not say its own", a.Name), Advice: "give the one that it is started with"}
	case given != "" && a.Mode != "" && given != a.Mode:
		return 0, &shell.UsageError{Where: "--mode", What: fmt.Sprintf("agent %s says that it is %s, not %s", a.Name, shell.Line(a.Mode), given), Advice: "leave it out, or start the agent with another --agent-mode"}
	case given == "":
		given = a.Mode
	}
	mode, ok := resource.ParseMode(given)
	if !ok {
		return 0, &shell.UsageError{Where: "--mode", What: fmt.Sprintf("%q is none of its values", given), Advice: "choose one of autonomous, managed"}
	}
	return mode, nil
}

// applicantsOf returns who waits to be registered.
func applicantsOf(c *cli.Context) ([]admin.Applicant, error) {
	p, err := principalOf(c)
	if err != nil {
		return nil, err
	}
	waits, err := p.Applicants(c.Context)
	return waits.Applicants, asked(c, err)
}

// showApplicants shows them to people.
func showApplicants(w io.Writer, waits []admin.Applicant) error {
	t := newTable(w, "WAITING", "MODE", "FROM", "SINCE", "LABELS", "NOT ALLOWED", "PROBLEM")
	for _, a := range waits {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(a.Labels)) {
			labels = append(labels, key+"="+a.Labels[key])
		}
		t.row(a.Name, orNone(a.Mode), a.From, a.Since.UTC().Format("2006-01-02T15:04:05Z"), orNone(strings.Join(labels, ",")), orNone(strings.Join(a.Dropped, ",")), a.Problem)
	}
	return t.w.Flush()
}

// orNone returns a text, or what stands for none in a table.
func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
