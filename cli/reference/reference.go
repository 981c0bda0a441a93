// Package reference writes the pages of deploy/docs/reference from the programs themselves:
// what is there cannot differ from what they do. Its test holds the pages equal, and writes
// them:
//
//	go test ./cli/reference -update
//
// The pages are functions of what is passed in, so that this package knows no program.
package reference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Unrun begins every page: it says that no test runs the commands on it, which are the
// examples of --help.
const Unrun = "<!-- not run by tests: examples of --help, and written by go test ./cli/reference -update -->\n\n"

// Program returns the page of a program: each of its commands with its flags.
func Program(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s# %s\n\n%s.\n\n", Unrun, app.Name, upper(app.Usage))
	b.WriteString("A flag of a command that has a `--config` is also a key of the YAML file that this names, without the dashes; a flag with a variable\n" +
		"is also read from the environment. The command line comes before the environment, that before the file, the file before the default.\n\n")
	commands(&b, app.Name, app.Commands)
	return b.String()
}

// commands writes the commands below path.
func commands(b *strings.Builder, path string, below []*cli.Command) {
	for _, c := range below {
		if c.Hidden {
			continue
		}
		name := path + " " + c.Name
		if len(c.Subcommands) > 0 {
			commands(b, name, c.Subcommands)
			continue
		}
		fmt.Fprintf(b, "## %s\n\n%s.\n\n", strings.TrimSpace(name+" "+c.ArgsUsage), upper(c.Usage))
		if c.Description != "" {
			b.WriteString(described(c.Description) + "\n\n")
		}
		flags(b, c.Flags)
	}
}

// described returns a description in which examples, which --help indents by three, are
// blocks of commands.
func described(text string) string {
	var out []string
	inside := false
	for _, line := range append(strings.Split(text, "\n"), "") {
		example, is := strings.CutPrefix(line, "   ")
		if is != inside {
			out = append(out, map[bool]string{true: "```sh", false: "```"}[is])
			inside = is
		}
		out = append(out, example)
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

// flags writes a table of flags, in the order in which --help has them.
func flags(b *strings.Builder, all []cli.Flag) {
	all = slices.DeleteFunc(slices.Clone(all), func(f cli.Flag) bool { return slices.Contains(f.Names(), "help") })
	if len(all) == 0 {
		return
	}
	b.WriteString("| flag | variable | default | |\n|---|---|---|---|\n")
	for _, f := range all {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", names(f), code(d.GetEnvVars()...), code(initial(d)), cell(d.GetUsage()))
	}
	b.WriteString("\n")
}

// names returns the names of a flag as one writes them.
func names(f cli.Flag) string {
	var all []string
	for _, name := range f.Names() {
		dashes := "--"
		if len(name) == 1 {
			dashes = "-"
		}
		all = append(all, dashes+name)
	}
	return code(all...)
}

// initial returns the value that a flag has if nobody gives it one.
func initial(d cli.DocGenerationFlag) string {
	return strings.Trim(d.GetDefaultText(), `"`)
}

// code returns texts as code, with commas between them.
func code(texts ...string) string {
	var all []string
	for _, t := range texts {
		if t != "" {
			all = append(all, "`"+t+"`")
		}
	}
	return strings.ReplaceAll(strings.Join(all, ", "), "|", `\|`)
}

// cell returns a text as it may stand in a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "\n", " ").Replace(text)
}

func upper(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
