// Package shell is what all command lines of the project have in common: exit codes and
// one-line errors, and flags that are also variables of the environment and keys of a
// configuration file.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/urfave/cli/v2/altsrc"
)

// The exit codes of every command.
const (
	OK    = 0 // it did what it was asked to
	Fault = 1 // it failed at work
	Usage = 2 // it was asked wrongly, and did nothing
)

// A UsageError says what is wrong with a command line, its environment or its
// configuration file. It ends the program with code Usage.
type UsageError struct {
	Where  string // the flag, variable, file or key, as the user knows it
	What   string // is wrong with it
	Advice string // what to do, in the imperative
}

// Error returns the three in one line.
func (e *UsageError) Error() string { return e.Where + ": " + e.What + "; " + e.Advice }

// Run runs an App with arguments as in os.Args, and returns the code to exit with. What
// went wrong goes to the App's ErrWriter, in one line. The App's actions get ctx.
func Run(ctx context.Context, app *cli.App, args []string) int {
	app.ExitErrHandler = func(*cli.Context, error) {} // it would end the process
	app.HideHelpCommand = true
	app.HideVersion = true
	app.OnUsageError = misused
	app.Action = unknownCommand
	prepare(app.Name, app.Commands)
	err := app.RunContext(ctx, args)
	if err == nil {
		return OK
	}
	Complain(app.ErrWriter, app.Name, err)
	if usage := (*UsageError)(nil); errors.As(err, &usage) {
		return Usage
	}
	return Fault
}

// Complain writes why a program ends, in one line that a terminal shows as it is: some of it may be a peer's.
func Complain(w io.Writer, program string, err error) {
	fmt.Fprintf(w, "%s: %s\n", program, Line(strings.Join(strings.Fields(err.Error()), " ")))
}

// prepare gives commands what the App's own settings do not reach.
func prepare(path string, commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError = misused
		c.HideHelpCommand = true
		c.Action = gathered(c.Action)
		prepare(path+" "+c.Name, c.Subcommands)
		if len(c.Subcommands) > 0 {
			c.Action = unknownCommand
		}
	}
}

// unknownCommand is the action of what has only commands below it.
func unknownCommand(c *cli.Context) error {
	if !c.Args().Present() {
		return &UsageError{Where: commandLine(c), What: "no command is given", Advice: "see --help"}
	}
	return &UsageError{Where: commandLine(c), What: fmt.Sprintf("there is no command %q", c.Args().First()), Advice: "see --help"}
}

// NoArguments is the Before of a command that takes none.
func NoArguments(c *cli.Context) error {
	if c.Args().Present() {
		return &UsageError{Where: commandLine(c), What: fmt.Sprintf("argument %q is not expected", c.Args().First()), Advice: "see --help"}
	}
	return nil
}

// Argument returns the only argument of a command, which is a what.
func Argument(c *cli.Context, what string) (string, error) {
	all := Arguments(c)
	switch {
	case len(all) == 0 || all[0] == "":
		return "", misuse(c, "%s is not given", what)
	case len(all) > 1:
		return "", misuse(c, "argument %q is not expected", all[1])
	}
	return all[0], nil
}

// Arguments returns the arguments of a command, without the flags between them.
func Arguments(c *cli.Context) []string {
	all, _ := c.Context.Value(argumentsKey{}).([]string)
	return all
}

type argumentsKey struct{}

// gathered returns an action that finds all flags set, wherever they stand: the library
// reads none behind the first argument. Who asks for help there does not want it done.
func gathered(action cli.ActionFunc) cli.ActionFunc {
	if action == nil {
		return nil
	}
	return func(c *cli.Context) error {
		all, err := gather(c)
		switch {
		case err != nil:
			return err
		case c.Bool("help"):
			return cli.ShowCommandHelp(c.Lineage()[1], c.Command.Name)
		}
		if err := recheck(c); err != nil {
			return err
		}
		c.Context = context.WithValue(c.Context, argumentsKey{}, all)
		return action(c)
	}
}

// gather sets the flags between and behind the arguments of a command, and returns those.
// Whatever stands behind "--" is an argument.
func gather(c *cli.Context) (all []string, err error) {
	for rest := c.Args().Slice(); len(rest) > 0; rest = rest[1:] {
		name, value, whole := strings.Cut(dashed(rest[0]), "=")
		f := flagNamed(c, name)
		switch {
		case rest[0] == "--":
			return append(all, rest[1:]...), nil
		case name == "":
			all = append(all, rest[0])
			continue
		case f == nil:
			return nil, misuse(c, "flag provided but not defined: -%s", name)
		case whole:
		case isSwitch(f):
			value = "true"
		case len(rest) > 1:
			rest = rest[1:]
			value = rest[0]
		default:
			return nil, misuse(c, "flag needs an argument: -%s", name)
		}
		if err := c.Set(f.Names()[0], value); err != nil {
			if text := err.Error(); text == "parse error" || text == "value out of range" { // the library says whose where it finds the flag itself
				err = fmt.Errorf("invalid value %q for flag -%s: %w", value, name, err)
			}
			return nil, misuse(c, "%w", err)
		}
	}
	return all, nil
}

// dashed returns what stands behind the one or two dashes of a flag, "" if there are none.
func dashed(text string) string {
	name, is := strings.CutPrefix(text, "-")
	if !is {
		return ""
	}
	return strings.TrimPrefix(name, "-")
}

// flagNamed returns the flag of a command that has a name, nil if there is none.
func flagNamed(c *cli.Context, name string) cli.Flag {
	i := slices.IndexFunc(c.Command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return nil
	}
	return c.Command.Flags[i]
}

func isSwitch(f cli.Flag) bool {
	switch f.(type) {
	case *cli.BoolFlag, *altsrc.BoolFlag:
		return true
	}
	return false
}

func commandLine(c *cli.Context) string {
	if path, ok := strings.CutPrefix(c.Command.HelpName, c.App.Name+" "); ok {
		return path
	}
	return "command line"
}
