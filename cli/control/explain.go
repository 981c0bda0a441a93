package control

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func explainCommand() *cli.Command {
	one := func(name string, aliases []string, kind resource.Kind, what string) *cli.Command {
		return &cli.Command{
			Name: name, Aliases: aliases, Usage: "of " + what, ArgsUsage: "[NAMESPACE/]NAME",
			Flags: principalFlags(outputFlag("table", "json", "yaml"), agentFlag(),
				&cli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Usage: "the `namespace` of the object on the control plane; empty is any"}),
			Action: func(c *cli.Context) error { return explain(c, kind) },
			Description: "Shows the last changes of " + what + ", in each direction: when it was seen in the store of\n" +
				"the side that made it, was put into the log, arrived at the other side, and was written there; of\n" +
				"a managed Application also when Argo CD has looked at it since, and when the hub knew. Under it\n" +
				"stands who is behind, and why: the link, a store or quota, a policy, the order of kinds, a write\n" +
				"that fails, a busy operation, a deletion that is held or waits, a dead letter.\n\n" +
				"What is shown is what both processes remember since they were started; \"?\" is what nobody\n" +
				"remembers, or what only the agent does while it is away; \"-\" has not happened yet; \"~\" was skipped, since\n" +
				"a later change came first. All times are by the hub's clock, as exactly as the two clocks can be\n" +
				"compared. It ends with 0 whether or not anything is behind.\n\n" +
				"   argocd-agentctl explain " + name + " guestbook\n" +
				"   argocd-agentctl explain " + name + " guestbook --agent edge-1 -o json" + askHelp,
		}
	}
	return &cli.Command{
		Name:  "explain",
		Usage: "show what has become of the changes of an object, and who is behind and why",
		Subcommands: []*cli.Command{
			one("app", []string{"application"}, resource.Application, "an Application"),
			one("project", []string{"appproject"}, resource.Project, "an AppProject"),
			one("repository", []string{"repo"}, resource.Secret, "a Secret with the credentials of a repository"),
		},
	}
}

func explain(c *cli.Context, kind resource.Kind) error {
	name, err := shell.Argument(c, "the object's name")
	if err != nil {
		return err
	}
	namespace := c.String("namespace")
	if before, after, ok := strings.Cut(name, "/"); ok && (namespace == "" || namespace == before) {
		namespace, name = before, after // as Argo CD names Applications, and the table below
	}
	show, err := formOf(c, map[string]form{"table": explainTable})
	if err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	all, err := p.Explain(c.Context, admin.Object{Kind: string(kind), Namespace: namespace, Name: name}, c.String("agent"))
	if err != nil {
		return asked(c, err)
	}
	return show(c.App.Writer, all)
}

func explainTable(w io.Writer, v any) error {
	all := v.(admin.Explanations)
	for i, e := range all.Objects {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := explainOne(w, e); err != nil {
			return err
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(all.Unasked)) {
		fmt.Fprintf(w, "\nagent %s: %s\n", shell.Line(agent), shell.Line(all.Unasked[agent]))
	}
	return nil
}

func explainOne(w io.Writer, e admin.Explanation) error {
	o := resource.Key{Kind: resource.Kind(e.Object.Kind), Namespace: e.Object.Namespace, Name: e.Object.Name}
	fmt.Fprintf(w, "%s, of agent %s (%s)\n", shell.Line(o.String()), shell.Line(e.Agent), shell.Line(e.Mode))
	if e.Unknown != "" {
		fmt.Fprintf(w, "the spoke's half is not known: %s\n", shell.Line(e.Unknown))
	}
	if k := e.Clock; k != nil && (k.Ahead > k.Within || -k.Ahead > k.Within) {
		fmt.Fprintf(w, "the agent's clock is %s the hub's, to within %s: times of the spoke are put right by that\n", apart(k.Ahead), seconds(k.Within))
	}
	t := newTable(w, "CHANGE", "FROM", "SAYS", "SEEN", "IN LOG", "ARRIVED", "APPLIED", "RECONCILED", "BACK")
	for _, p := range e.Changes {
		digest := p.Digest
		if digest == "" {
			digest = "none"
		}
		t.row(digest, p.From, p.Phase, stage(&p.Seen, true), stage(&p.Logged, false), stage(&p.Come, false), stage(&p.Done, false), stage(p.Reconciled, false), stage(p.Back, false))
	}
	if err := t.w.Flush(); err != nil {
		return err
	}
	if len(e.Behind) == 0 {
		_, err := fmt.Fprintln(w, "nothing is behind")
		return err
	}
	for _, r := range e.Behind {
		line := fmt.Sprintf("behind: %s: %s: %s", r.Where, r.What, r.Text)
		if !r.Since.IsZero() {
			line += fmt.Sprintf(" (since %s, for %s)", r.Since.UTC().Format(time.RFC3339), ago(e.Now, r.Since))
		}
		if !r.Retry.IsZero() {
			line += fmt.Sprintf(" (next try in %s)", seconds(max(r.Retry.Sub(e.Now).Seconds(), 0)))
		}
		fmt.Fprintln(w, shell.Line(line))
	}
	return nil
}

// stage shows how far a change is in a few characters: when, if whole is set, and else how long
// after the first.
func stage(s *admin.Stage, whole bool) string {
	switch {
	case s == nil:
		return ""
	case s.State == admin.StageFailed:
		return "failed"
	case s.State == admin.StageWaits:
		return "-"
	case s.State == admin.StageSkipped:
		return "~"
	case s.State == admin.StageUnknown:
		return "?"
	case s.At.IsZero():
		return "yes"
	case whole || s.After == 0 && s.Text == "":
		return s.At.UTC().Format("2006-01-02T15:04:05.000Z")
	case s.After == 0:
		return "+0s?"
	}
	return "+" + seconds(s.After)
}

// seconds writes a duration as exactly as is of use.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.Round(10 * time.Microsecond).String()
}

func apart(ahead float64) string {
	if ahead < 0 {
		return seconds(-ahead) + " behind"
	}
	return seconds(ahead) + " ahead of"
}
