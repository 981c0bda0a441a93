package reference

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// A Name is one that others meet, and what it means.
type Name struct{ Name, Means string }

// Facts is what the page of names is made of.
type Facts struct {
	Events   []Name         // the types of events
	Marks    []Name         // labels and annotations
	Programs []*cli.Command // those that listen
}

// Names returns the page of what the programs write and answer that is no flag.
func Names(f Facts) string {
	var b strings.Builder
	b.WriteString(Unrun + "# Names\n\n## Exit codes\n\nOf both programs, and of every command.\n\n| code | |\n|---|---|\n")
	for _, c := range []struct {
		code  int
		means string
	}{
		{shell.OK, "it did what it was asked to"},
		{shell.Fault, "it failed at work; `verify` and `check`: it found something"},
		{shell.Usage, "it was asked wrongly (command line, environment or configuration file), and did nothing"},
	} {
		fmt.Fprintf(&b, "| %d | %s |\n", c.code, c.means)
	}
	b.WriteString("\n## Ports\n\nWhat the programs listen on unless a flag says otherwise. A port without a host is on all interfaces.\n\n| program | address | flag | |\n|---|---|---|---|\n")
	for _, p := range f.Programs {
		ports(&b, p)
	}
	b.WriteString("\n")
	table(&b, "Labels and annotations", "", "name", f.Marks)
	table(&b, "Types of events", "What travels are CloudEvents of these types; the package comment of `sync/wire` has their attributes.", "type", f.Events)
	b.WriteString("Metrics have [a page of their own](../../../cli/metrics/METRICS.md).\n")
	return b.String()
}

// ports writes the addresses of a program.
func ports(b *strings.Builder, p *cli.Command) {
	for _, flag := range p.Flags {
		d, ok := flag.(cli.DocGenerationFlag)
		if !ok || !listens(flag.Names()[0]) {
			continue
		}
		if at := address(initial(d)); at != "" {
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", p.Name, code(at), names(flag), cell(d.GetUsage()))
		}
	}
}

// listens reports whether a flag says where its program listens.
func listens(flag string) bool {
	return strings.HasSuffix(flag, "listen") || slices.Contains([]string{"healthz-port", "metrics-port"}, flag)
}

// address returns a default as an address, "" if there is none.
func address(text string) string {
	if n, err := strconv.ParseUint(text, 10, 16); err == nil && n > 0 {
		return ":" + text
	}
	if _, port, err := net.SplitHostPort(text); err == nil && port != "" {
		return text
	}
	return ""
}

func table(b *strings.Builder, title, text, column string, rows []Name) {
	fmt.Fprintf(b, "## %s\n\n", title)
	if text != "" {
		b.WriteString(text + "\n\n")
	}
	fmt.Fprintf(b, "| %s | |\n|---|---|\n", column)
	for _, r := range rows {
		fmt.Fprintf(b, "| %s | %s |\n", code(r.Name), cell(r.Means))
	}
	b.WriteString("\n")
}
