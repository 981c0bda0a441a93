package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func adoptCommand() *cli.Command {
	return &cli.Command{
		Name:      "adopt",
		Usage:     "have an agent that observes write objects, one by one",
		ArgsUsage: "AGENT [OBJECT ...]",
		Flags: principalFlags(
			&cli.BoolFlag{Name: "all", Usage: "all that the agent's plan has by now; with --undo all that is adopted"},
			&cli.BoolFlag{Name: "undo", Usage: "have the agent write them no more: they are again what they were when they were adopted, without the marks of copies; what was not there then stays, and so do the values of Secrets"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask, with --all"}),
		Action: adopt,
		Description: "From then on the agent keeps these objects in step, as it would all without --observe: it\n" +
			"changes them in place, and what they have deployed stays. OBJECT is an Application as the\n" +
			"control plane names it, NAME or NAMESPACE/NAME, or another object with its kind before it.\n\n" +
			"The agent remembers it in its --state-dir. It waits for a moment until the objects are what\n" +
			"they should be, and says which are not yet.\n\n" +
			"   argocd-agentctl adopt edge-1 web\n" +
			"   argocd-agentctl adopt edge-1 AppProject/team-a Secret/repo-charts\n" +
			"   argocd-agentctl adopt edge-1 web --undo\n" +
			"   argocd-agentctl adopt edge-1 --all --yes" + askHelp,
	}
}

func adopt(c *cli.Context) error {
	names := shell.Arguments(c)
	want, err := adoption(c, names)
	if err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	name, did := names[0], "adopted"
	if want.Undo {
		did = "let go"
	}
	if want.All {
		what := "have agent %s write all that its plan has?"
		if want.Undo {
			what = "have agent %s write none of what is adopted any more?"
		}
		if sure, err := confirmed(c, fmt.Sprintf(what, name)); err != nil || !sure {
			return err
		}
	}
	done, err := p.Adopt(c.Context, name, want)
	if err != nil {
		return asked(c, err)
	}
	for _, object := range done.Done {
		state := ""
		if slices.Contains(done.Pending, object) {
			state = ", and is not written yet: see argocd-agentctl plan " + name + ", and deadletter list"
		}
		fmt.Fprintf(c.App.Writer, "%s %s%s\n", did, shell.Line(strings.Replace(object, "//", "/", 1)), state)
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s %s of agent %s\n", did, shell.Count(len(done.Done), "object"), shell.Line(name))
	return err
}

// adoption returns what a command line asks for.
func adoption(c *cli.Context, names []string) (a admin.Adoption, err error) {
	a.All, a.Undo = c.Bool("all"), c.Bool("undo")
	wrong := func(what string) (admin.Adoption, error) {
		return a, &shell.UsageError{Where: "adopt", What: what, Advice: "see --help"}
	}
	switch {
	case len(names) == 0:
		return wrong("the agent's name is not given")
	case len(names) == 1 && !a.All:
		return wrong("no object is given, nor --all")
	case len(names) > 1 && a.All:
		return wrong("an object and --all are given")
	}
	for _, name := range names[1:] {
		o, ok := object(name)
		if !ok {
			return a, &shell.UsageError{
				Where: "adopt", What: fmt.Sprintf("%q names no object", name),
				Advice: "write NAME or NAMESPACE/NAME, and before it, with a slash, the kind if it is no Application: " + kinds(),
			}
		}
		a.Objects = append(a.Objects, o)
	}
	return a, nil
}

// object returns the object that is named [KIND/][NAMESPACE/]NAME. Kinds are written as one
// likes, as elsewhere; a namespace has no capitals, so what has is no namespace.
func object(text string) (o admin.Object, ok bool) {
	parts := strings.Split(text, "/")
	o.Kind, o.Name = string(resource.Application), parts[len(parts)-1]
	parts = parts[:len(parts)-1]
	if len(parts) > 0 {
		if i := slices.IndexFunc(resource.Kinds(), func(k resource.Kind) bool { return strings.EqualFold(string(k), parts[0]) }); i >= 0 {
			o.Kind, parts = string(resource.Kinds()[i]), parts[1:]
		}
	}
	if len(parts) > 0 {
		o.Namespace, parts = parts[0], parts[1:]
	}
	return o, o.Name != "" && len(parts) == 0 && o.Namespace == strings.ToLower(o.Namespace)
}

// kinds returns those that can be adopted, for people.
func kinds() string {
	var names []string
	for _, k := range resource.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}
