package shell

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
)

// run runs a small program and returns its exit code, what it was told and what it
// complained of.
func run(t *testing.T, args ...string) (code int, told map[string]any, complaint string) {
	t.Helper()
	told = map[string]any{}
	var errs bytes.Buffer
	f := Flags("TEST_")
	flags, before := f.WithFile(
		f.String("color,c", "", "red", ""),
		f.Int("port", "LISTEN_PORT", 80, Port, ""),
		f.Duration("tick", "", time.Second, Positive, ""),
		f.String("listen", "", "", ""),
	)
	app := &cli.App{
		Name: "tool", Writer: &errs, ErrWriter: &errs,
		Commands: []*cli.Command{
			{Name: "serve", Flags: flags, Before: before, Action: func(c *cli.Context) error {
				color, err := Choice(c, "color", map[string]string{"red": "#f00", "blue": "#00f"})
				if err != nil {
					return err
				}
				listen, err := Address(c, "listen")
				told["color"], told["port"], told["tick"], told["listen"] = color, c.Int("port"), c.Duration("tick"), listen
				return err
			}},
			{Name: "break", Action: func(*cli.Context) error { return errors.New("disk:\nfull") }},
			{Name: "pet", Subcommands: []*cli.Command{{Name: "feed", Flags: []cli.Flag{&cli.StringFlag{Name: "with", Aliases: []string{"w"}}, &cli.BoolFlag{Name: "twice", Aliases: []string{"t"}}, f.Bool("now", "", "")}, Action: func(c *cli.Context) error {
				told["with"], told["twice"] = c.String("with"), c.Bool("twice") // before the argument is asked for
				name, err := Argument(c, "the pet's name")
				told["pet"] = name
				return err
			}}}},
		},
	}
	code = Run(t.Context(), app, append([]string{"tool"}, args...))
	return code, told, errs.String()
}

func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("color: blue\nport: 1\ntick: 3s\n"), 0o600))
	t.Setenv("TEST_LISTEN_PORT", "2")
	code, told, complaint := run(t, "serve", "--config", file, "--tick", "4s", "--listen", ":0")
	require.Zero(t, code, complaint)
	require.Equal(t, map[string]any{"color": "#00f", "port": 2, "tick": 4 * time.Second, "listen": ":0"}, told)

	t.Setenv("TEST_CONFIG", file)
	_, told, _ = run(t, "serve", "--port", "3", "-c", "red")
	require.Equal(t, map[string]any{"color": "#f00", "port": 3, "tick": 3 * time.Second, "listen": ""}, told)
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"rex", "--now", "--with=bones", "--twice"}, {"--twice", "--with", "bones", "rex", "--"}, {"rex", "--with", "bones", "--twice"}, {"--with", "bones", "-t", "rex"}, {"rex", "-t", "-with=bones"}, {"rex", "-t", "-w", "bones"}, {"--twice", "rex", "--with=bones"}} {
		code, told, complaint := run(t, append([]string{"pet", "feed"}, args...)...)
		require.Zero(t, code, complaint)
		require.Equal(t, map[string]any{"pet": "rex", "with": "bones", "twice": true}, told)
	}
}

// Behind "--" there are only arguments.
func TestArgumentsThatLookLikeFlags(t *testing.T) {
	code, told, _ := run(t, "pet", "feed", "--with", "bones", "--", "rex")
	require.Zero(t, code)
	require.Equal(t, map[string]any{"pet": "rex", "with": "bones", "twice": false}, told)
	code, told, complaint := run(t, "pet", "feed", "rex", "--", "--twice")
	require.Equal(t, Usage, code)
	require.Equal(t, "tool: pet feed: argument \"--twice\" is not expected; see --help\n", complaint)
	require.Equal(t, false, told["twice"])
}

// Whoever asks for help is shown it, wherever he does: nothing is done.
func TestHelpIsNothingDone(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"rex", "--help"}, {"rex", "-h"}, {"rex", "--with", "bones", "--help", "--twice"}} {
		code, told, shown := run(t, append([]string{"pet", "feed"}, args...)...)
		require.Zero(t, code)
		require.Empty(t, told, args)
		require.Contains(t, shown, "tool pet feed", args)
		require.Contains(t, shown, "--twice", args)
	}
}

func TestMisuse(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		return filepath.Join(dir, name)
	}
	missing := filepath.Join(dir, "missing")
	unknown, mistyped, broken, twice := write("unknown", "colour: red"), write("mistyped", "port: many"), write("broken", "- a\n- b"), write("twice", "port: 1\nport: 2")
	for name, c := range map[string]struct {
		args []string
		env  string // of the port
		line string
	}{
		"nothing":            {nil, "", "tool: command line: no command is given; see --help"},
		"unknown command":    {[]string{"sevre"}, "", `tool: command line: there is no command "sevre"; see --help`},
		"unknown subcommand": {[]string{"pet", "wash"}, "", `tool: pet: there is no command "wash"; see --help`},
		"unknown flag":       {[]string{"serve", "--colour", "red"}, "", "tool: serve: there is no flag --colour; see --help"},
		"bad number":         {[]string{"serve", "--port", "many"}, "", `tool: --port: "many" is no whole number; see --help`},
		"bad duration":       {[]string{"serve", "--tick", "soon"}, "", `tool: --tick: "soon" is no duration such as 1s or 24h; see --help`},
		"bad switch":         {[]string{"pet", "feed", "--twice=maybe", "a"}, "", `tool: --twice: "maybe" is neither true nor false; see --help`},
		"bad switch behind":  {[]string{"pet", "feed", "a", "--twice=maybe"}, "", `tool: --twice: "maybe" is neither true nor false; see --help`},
		"bad environment":    {[]string{"serve"}, "many", `tool: TEST_LISTEN_PORT: "many" is no whole number; see --help`},
		"no choice":          {[]string{"serve", "--color", "green"}, "", `tool: --color: "green" is none of its values; choose one of blue, red`},
		"no port":            {[]string{"serve", "--port", "70000"}, "", "tool: --port: 70000 is no port; choose one from 1 to 65535, or 0 for none"},
		"no duration":        {[]string{"serve", "--tick", "0s"}, "", "tool: --tick: 0s is not above zero; write a duration such as 1s"},
		"no address":         {[]string{"serve", "--listen", "here"}, "", `tool: --listen: "here" is no address; write host:port, or :port for all interfaces`},
		"no address's port":  {[]string{"serve", "--listen", ":http"}, "", `tool: --listen: ":http" is no address; write host:port, or :port for all interfaces`},
		"argument too many":  {[]string{"serve", "now"}, "", `tool: serve: argument "now" is not expected; see --help`},
		"argument empty":     {[]string{"pet", "feed", ""}, "", "tool: pet feed: the pet's name is not given; see --help"},
		"argument missing":   {[]string{"pet", "feed"}, "", "tool: pet feed: the pet's name is not given; see --help"},
		"two arguments":      {[]string{"pet", "feed", "a", "b"}, "", `tool: pet feed: argument "b" is not expected; see --help`},
		"flag behind":        {[]string{"pet", "feed", "a", "--by", "b"}, "", "tool: pet feed: there is no flag --by; see --help"},
		"no flag, no value":  {[]string{"pet", "feed", "a", "--by"}, "", "tool: pet feed: there is no flag --by; see --help"},
		"three dashes":       {[]string{"pet", "feed", "a", "---twice"}, "", "tool: pet feed: there is no flag ---twice; see --help"},
		"value missing":      {[]string{"pet", "feed", "a", "--with"}, "", "tool: --with: has no value; see --help"},
		"file missing":       {[]string{"serve", "--config", missing}, "", "tool: --config " + missing + ": no such file or directory; name a readable YAML file"},
		"file is a folder":   {[]string{"serve", "--config", dir}, "", "tool: --config " + dir + ": is a directory; name a readable YAML file"},
		"unknown key":        {[]string{"serve", "--config", unknown}, "", "tool: " + unknown + `: there is no key "colour"; use the names of the flags, see --help`},
		"value of a type":    {[]string{"serve", "--config", mistyped}, "", "tool: " + mistyped + ": Mismatched type for flag 'port'. Expected 'int' but actual is 'string'; give the key a value of the flag's type"},
		"no keys":            {[]string{"serve", "--config", broken}, "", "tool: " + broken + ": error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}; write one \"flag: value\" a line"},
		"key twice":          {[]string{"serve", "--config", twice}, "", "tool: " + twice + ": error converting YAML to JSON: yaml: unmarshal errors: line 2: key \"port\" already set in map; write one \"flag: value\" a line"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv("TEST_LISTEN_PORT", c.env)
			}
			code, _, complaint := run(t, c.args...)
			require.Equal(t, c.line+"\n", complaint)
			require.Equal(t, Usage, code)
		})
	}
}

// TestComplaintIsALine: what a peer has said moves no cursor.
func TestComplaintIsALine(t *testing.T) {
	var out bytes.Buffer
	Complain(&out, "tool", errors.New("a\x1b[2J\u009b31m\nb"))
	require.Equal(t, "tool: a\ufffd[2J\ufffd31m b\n", out.String())
}

func TestFault(t *testing.T) {
	code, _, complaint := run(t, "break")
	require.Equal(t, Fault, code)
	require.Equal(t, "tool: disk: full\n", complaint)
}
