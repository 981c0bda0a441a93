package reference_test

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
	"github.com/urfave/cli/v2/altsrc"

	"github.com/argocd-fabric/argocd-agent/cli/command"
	"github.com/argocd-fabric/argocd-agent/cli/control"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// What no number, duration or list can be, whatever it is for.
var (
	noNumbers   = []string{"", " ", "-1", "1.5", "1e3", "0x", "NaN", "99999999999999999999"}
	noDurations = []string{"", " ", "-1s", "5", "NaN", "1e3s", "99999999999h"}
	noLists     = []string{" ", ",", " ,", "ITEM,", ",ITEM", "ITEM,,ITEM", "ITEM, ", "ITEM,ITEM", "ITEM, ITEM"}
)

// noughts are the flags for which 0 is something, and below those that may be below it; that
// --server-port may be 0 until it is needed is said where it is.
var (
	noughts = []string{
		"healthz-port", "metrics-port", "pprof-port", "server-port", "nats-max-store", "nats-quota",
		"operation-expiry", "settle", "delay", "seed",
	}
	below = []string{"seed"}
)

// lists are the flags that take several, with an item of each. The test finds them by what their help says.
var lists = map[string]string{
	"transport": "nats", "nats-url": "nats://a:1", "backend-nats-url": "nats://a:1", "trusted-proxy-cidr": "10.0.0.0/8",
	"live-allow": "exec", "allowed-namespaces": "team-*", "self-registration-label": "region=north",
	"only": "behind", "rows": "latency",
}

var several = regexp.MustCompile(`\bcommas?\b`)

// TestNonsenseIsRefused gives each flag of each command what it cannot be: whatever else is given, one line says
// so, and nothing is done.
func TestNonsenseIsRefused(t *testing.T) {
	var taken []string
	for _, program := range []func(io.Writer, io.Writer) *cli.App{command.App, control.App} {
		app := program(io.Discard, io.Discard)
		for path, c := range all(nil, app.Commands) {
			for _, f := range c.Flags {
				name, bad := f.Names()[0], nonsense(t, f)
				for _, value := range bad {
					given := append(strings.Fields(path), "--"+name+"="+value)
					code, says := play(t, program, given)
					if code != shell.Usage || !strings.HasPrefix(says, app.Name+": --"+name+": ") || strings.Count(says, "\n") != 1 {
						taken = append(taken, fmt.Sprintf("%s %q: %d, %s", app.Name, given, code, says))
					}
				}
			}
		}
	}
	require.Empty(t, taken)
}

// TestNonsenseIsRefusedWhereverItStands: in the environment, in a file, and behind an argument.
func TestNonsenseIsRefusedWhereverItStands(t *testing.T) {
	t.Setenv("ARGOCD_AGENT_KUBE_QPS", "-1")
	code, says := play(t, command.App, []string{"agent", "--backend", "memory"})
	require.Equal(t, shell.Usage, code)
	require.Equal(t, "argocd-agent: --kube-qps: -1 is not from 1 to 1000000; write a number of requests\n", says)
	code, says = play(t, control.App, []string{"pki", "issue", "agent", "edge-1", "--days", "0"})
	require.Equal(t, shell.Usage, code)
	require.Equal(t, "argocd-agentctl: --days: 0 is not from 1 to 36500; write for how long it is to be valid\n", says)
}

// all returns all commands that do something, by their paths.
func all(path []string, commands []*cli.Command) map[string]*cli.Command {
	found := map[string]*cli.Command{}
	for _, c := range commands {
		here := append(path[:len(path):len(path)], c.Name)
		if c.Action != nil {
			found[strings.Join(here, " ")] = c
		}
		for at, below := range all(here, c.Subcommands) {
			found[at] = below
		}
	}
	return found
}

// nonsense returns what a flag cannot be.
func nonsense(t *testing.T, f cli.Flag) (values []string) {
	t.Helper()
	name := f.Names()[0]
	nought := func(value string) {
		if !strings.Contains(" "+strings.Join(noughts, " ")+" ", " "+name+" ") {
			values = append(values, value)
		}
	}
	switch f := f.(type) {
	case *cli.IntFlag, *altsrc.IntFlag:
		nought("0")
		values = append(values, noNumbers...)
	case *cli.DurationFlag, *altsrc.DurationFlag:
		nought("0s")
		values = append(values, noDurations...)
	case *cli.StringSliceFlag:
		values = append(values, "", " ")
	case *cli.Float64Flag, *cli.Int64Flag, *cli.UintFlag, *altsrc.Float64Flag, *altsrc.StringSliceFlag:
		require.Fail(t, "the test does not know such a flag", name)
	case cli.DocGenerationFlag:
		item, is := lists[name]
		if several.MatchString(f.GetUsage()) {
			require.True(t, is, "--%s takes several, and has no item here", name)
		}
		if !is || name == "transport" && !strings.Contains(f.GetUsage(), "nats,grpc") { // the others are one of a few
			return nil
		}
		for _, value := range noLists {
			values = append(values, strings.ReplaceAll(value, "ITEM", item))
		}
	}
	for _, b := range below {
		if name == b {
			values = values[:0]
		}
	}
	return values
}

// play runs a program whose commands do nothing.
func play(t *testing.T, program func(io.Writer, io.Writer) *cli.App, args []string) (code int, says string) {
	t.Helper()
	var out bytes.Buffer
	app := program(&out, &out)
	for _, c := range all(nil, app.Commands) {
		c.Action = func(*cli.Context) error { return nil }
	}
	code = shell.Run(t.Context(), app, append([]string{app.Name}, args...))
	return code, out.String()
}
