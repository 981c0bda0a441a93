package reference_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/command"
	"github.com/argocd-fabric/argocd-agent/cli/control"
	"github.com/argocd-fabric/argocd-agent/cli/reference"
)

const root = "../.."

// pages returns what is written for users, by where it is below the root.
func pages(t *testing.T) map[string]reference.Page {
	out := map[string]reference.Page{}
	for _, at := range []string{"README.md", "deploy"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, at), func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			out[name] = reference.Read(string(text))
			return err
		}))
	}
	require.Greater(t, len(out), 8)
	return out
}

// languages are those that a block may have. Commands are sh.
var languages = []string{"sh", "text", "yaml", "json", "nginx"}

// TestEveryBlockSaysWhoRunsIt holds that each block of commands is run by a test, or says
// that none does.
func TestEveryBlockSaysWhoRunsIt(t *testing.T) {
	for name, page := range pages(t) {
		for _, b := range page.Blocks {
			require.Contains(t, languages, b.Language, "%s:%d: what is in the block?", name, b.Line)
			if b.Language != "sh" {
				continue
			}
			how, who, _ := strings.Cut(b.Mark, ": ")
			by, scripted := strings.CutPrefix(b.Mark, "run by ")
			switch {
			case scripted:
				runBy(t, name, b, by)
			case how == "run":
				test, err := os.ReadFile(filepath.Join(root, "e2e", "scripts", "docs_test.go"))
				require.NoError(t, err)
				require.Contains(t, string(test), `"`+who+`"`, "%s:%d: that test runs no such block", name, b.Line)
			default:
				require.Equal(t, "not run by tests", how, "%s:%d: write before it <!-- run by FILE -->, <!-- run: NAME --> or <!-- not run by tests -->", name, b.Line)
			}
		}
		for i, line := range page.Prose {
			indented := strings.HasPrefix(line, "    ") && i > 0 && page.Prose[i-1] == ""
			require.False(t, indented, "%s:%d: write what is no text between fences", name, i+1)
		}
	}
}

// runBy holds that each command of a block is in a file that tests run: as it is, or with
// as many flags, whatever their values are.
func runBy(t *testing.T, page string, b reference.Block, file string) {
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err, "%s:%d", page, b.Line)
	lines := reference.Lines(string(text))
	for _, line := range reference.Lines(b.Text) {
		found := slices.ContainsFunc(lines, func(of string) bool {
			of = strings.TrimPrefix(of, "exec ")
			if of == line {
				return true
			}
			want, ours := called(line)
			have, theirs := called(of)
			return ours && theirs && want.path == have.path && !slices.ContainsFunc(want.flags, func(f string) bool { return !slices.Contains(have.flags, f) })
		})
		require.True(t, found, "%s:%d: %s does not run: %s", page, b.Line, file, line)
	}
}

// A call is a command line of one of the programs.
type call struct {
	path  string // program and commands
	flags []string
	of    *cli.Command
	wrong string // what there is not
}

var programs = []*cli.App{command.App(io.Discard, io.Discard), control.App(io.Discard, io.Discard)}

// called finds the program that a command line runs, and reports whether it is one of ours.
func called(line string) (call, bool) {
	words := strings.Fields(strings.NewReplacer("go run ./cli/", "", "./argocd-agent", "argocd-agent").Replace(line))
	if len(words) == 0 {
		return call{}, false
	}
	i := slices.IndexFunc(programs, func(a *cli.App) bool { return a.Name == words[0] })
	if i < 0 {
		return call{}, false
	}
	c, below := call{path: words[0]}, programs[i].Commands
	for words = words[1:]; len(words) > 0 && len(below) > 0; words = words[1:] {
		at := slices.IndexFunc(below, func(sub *cli.Command) bool { return sub.Name == words[0] })
		if at < 0 {
			c.wrong = "no command " + words[0]
			return c, true
		}
		c.of, c.path, below = below[at], c.path+" "+words[0], below[at].Subcommands
	}
	for _, word := range words {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case word == "|" || word == "--" || word == "<" || word == ">":
			return c, true
		case !strings.HasPrefix(word, "-") || word == "-":
			continue
		case name != "help" && !has(c.of, name):
			c.wrong = "no flag --" + name
			return c, true
		}
		c.flags = append(c.flags, name)
	}
	return c, true
}

func has(c *cli.Command, flag string) bool {
	return c != nil && slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), flag) })
}

// anywhere reports whether a command of either program has a flag.
func anywhere(commands []*cli.Command, flag string) bool {
	return slices.ContainsFunc(commands, func(c *cli.Command) bool { return has(c, flag) || anywhere(c.Subcommands, flag) })
}

var (
	inline = regexp.MustCompile("`([^`]+)`")
	metric = regexp.MustCompile(`\bargocd_agent_[a-z_]+`)
	flagIn = regexp.MustCompile(`^--([a-z][a-z0-9-]*)`)
)

// TestCommandsAndFlagsExist holds that every command of ours that is shown is one, with
// flags that it has.
func TestCommandsAndFlagsExist(t *testing.T) {
	seen := 0
	for name, page := range pages(t) {
		var lines []string
		for _, b := range page.Blocks {
			if b.Language == "sh" {
				lines = append(lines, reference.Lines(b.Text)...)
			}
		}
		for _, found := range inline.FindAllStringSubmatch(strings.Join(page.Prose, "\n"), -1) {
			text := strings.Join(strings.Fields(found[1]), " ")
			lines = append(lines, text)
			if flag := flagIn.FindStringSubmatch(text); flag != nil {
				ours := anywhere(programs[0].Commands, flag[1]) || anywhere(programs[1].Commands, flag[1])
				require.True(t, ours || slices.Contains(others, flag[1]), "%s: there is no flag --%s", name, flag[1])
			}
		}
		for _, line := range lines {
			if c, ours := called(line); ours {
				seen++
				require.Empty(t, c.wrong, "%s: %s", name, line)
			}
		}
	}
	require.Greater(t, seen, 50)
}

// TestMetricsExist holds that every metric that is spoken of is in the table of them.
func TestMetricsExist(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(root, "cli", "metrics", "METRICS.md"))
	require.NoError(t, err)
	seen := 0
	for name, page := range pages(t) {
		for _, found := range metric.FindAllString(strings.Join(page.Prose, "\n"), -1) {
			seen++
			require.Contains(t, string(table), "`"+found+"`", "%s: there is no metric %s", name, found)
		}
	}
	require.Greater(t, seen, 5)
}

// others are flags of other programs that the text speaks of.
var others = []string{"application-namespaces", "tls-server-name"}

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	head = regexp.MustCompile("^#+ (.*)$")
	drop = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// TestLinksLead holds that every link within the repository leads to a file, and to a
// heading of it.
func TestLinksLead(t *testing.T) {
	all := pages(t)
	for name, page := range all {
		for _, found := range link.FindAllStringSubmatch(strings.Join(page.Prose, "\n"), -1) {
			to, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			target := name
			if to != "" {
				target = filepath.Join(filepath.Dir(name), to)
			}
			_, err := os.Stat(filepath.Join(root, target))
			require.NoError(t, err, "%s: %s", name, found[1])
			if anchor != "" {
				require.Contains(t, anchors(all[target]), anchor, "%s: %s", name, found[1])
			}
		}
	}
}

// anchors returns by what a page's headings are reached.
func anchors(p reference.Page) (out []string) {
	for _, line := range p.Prose {
		if found := head.FindStringSubmatch(line); found != nil {
			out = append(out, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-"))
		}
	}
	return out
}

// TestMessagesAreSaid holds that the programs say what troubleshooting explains.
func TestMessagesAreSaid(t *testing.T) {
	said := sources(t)
	text, err := os.ReadFile(filepath.Join(root, "deploy", "docs", "troubleshooting.md"))
	require.NoError(t, err)
	page, _, _ := strings.Cut(string(text), "## What TLS says")
	seen := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell, _, _ := strings.Cut(line[1:], "|")
		for _, found := range inline.FindAllStringSubmatch(cell, -1) {
			seen++
			require.Contains(t, said, found[1])
		}
	}
	require.Greater(t, seen, 20)
}

// sources returns the text of the programs.
func sources(t *testing.T) string {
	var all strings.Builder
	for _, dir := range []string{"agent", "backend", "cli", "principal", "proxy", "sync", "transport"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}))
	}
	return all.String()
}
