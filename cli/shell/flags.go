package shell

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/urfave/cli/v2/altsrc"
	"sigs.k8s.io/yaml"
)

// Flags makes flags. Each is also a variable of the environment, whose name begins with
// the prefix that Flags is, and a key of the configuration file: the command line comes
// before the environment, that before the file, and the file before the default.
//
// The name of the variable is made of the flag's unless env says another one. Behind the
// name of a flag for text may stand a comma and a short one.
type Flags string

// String makes a flag for text.
func (f Flags) String(name, env, value, usage string) cli.Flag {
	name, short, _ := strings.Cut(name, ",")
	flag := &cli.StringFlag{Name: name, EnvVars: f.env(name, env), Value: value, Usage: usage}
	if short != "" {
		flag.Aliases = []string{short}
	}
	return altsrc.NewStringFlag(flag)
}

// List makes a flag for a List.
func (f Flags) List(name, env, value, usage string) cli.Flag {
	return altsrc.NewStringFlag(&cli.StringFlag{Name: name, EnvVars: f.env(name, env), Value: value, Usage: usage, Action: Checked(name, Listed)})
}

// Int makes a flag for a number.
func (f Flags) Int(name, env string, value int, check Check[int], usage string) cli.Flag {
	return altsrc.NewIntFlag(&cli.IntFlag{Name: name, EnvVars: f.env(name, env), Value: value, Usage: usage, Action: Checked(name, check)})
}

// Bool makes a flag that is off unless it is given.
func (f Flags) Bool(name, env, usage string) cli.Flag {
	return altsrc.NewBoolFlag(&cli.BoolFlag{Name: name, EnvVars: f.env(name, env), Usage: usage})
}

// On returns a flag that is on unless it is said to be false.
func (f Flags) On(name, env, usage string) cli.Flag {
	return altsrc.NewBoolFlag(&cli.BoolFlag{Name: name, EnvVars: f.env(name, env), Value: true, Usage: usage})
}

// Duration makes a flag for a duration.
func (f Flags) Duration(name, env string, value time.Duration, check Check[time.Duration], usage string) cli.Flag {
	return altsrc.NewDurationFlag(&cli.DurationFlag{Name: name, EnvVars: f.env(name, env), Value: value, Usage: usage, Action: Checked(name, check)})
}

func (f Flags) env(name, env string) []string {
	if env == "" {
		env = strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	}
	return []string{string(f) + env}
}

const configFlag = "config"

// WithFile adds to flags the one that names the configuration file, and returns them with
// what reads it before the command's action runs.
func (f Flags) WithFile(flags ...cli.Flag) ([]cli.Flag, cli.BeforeFunc) {
	all := append(flags, &cli.StringFlag{Name: configFlag, EnvVars: f.env(configFlag, ""), Usage: "a YAML `file` with a value for any of these flags, by name"})
	return all, func(c *cli.Context) error {
		if err := NoArguments(c); err != nil {
			return err
		}
		file := c.String(configFlag)
		if file == "" {
			return nil
		}
		values, err := readFile(file, flags)
		if err != nil {
			return err
		}
		if err := altsrc.ApplyInputSourceValues(c, altsrc.NewMapInputSource(file, values), flags); err != nil {
			return &UsageError{Where: file, What: err.Error(), Advice: "give the key a value of the flag's type"}
		}
		return nil
	}
}

// readFile reads a configuration file that may have a key for each of flags.
func readFile(file string, flags []cli.Flag) (map[any]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &UsageError{Where: "--" + configFlag + " " + file, What: cause(err), Advice: "name a readable YAML file"}
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return nil, &UsageError{Where: file, What: err.Error(), Advice: "write one \"flag: value\" a line"}
	}
	out := map[any]any{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(flags, func(f cli.Flag) bool { return f.Names()[0] == key })
		if i < 0 {
			return nil, &UsageError{Where: file, What: fmt.Sprintf("there is no key %q", key), Advice: "use the names of the flags, see --help"}
		}
		out[key] = plain(values[key])
	}
	return out, nil
}

// plain returns a number, which JSON always reads as a float64, as the int that a flag
// takes.
func plain(v any) any {
	if f, ok := v.(float64); ok && f == float64(int(f)) {
		return int(f)
	}
	return v
}

// cause is what an error of a file system says without the path, which is said already.
func cause(err error) string {
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// Choice returns what the text of a flag stands for.
func Choice[T any](c *cli.Context, flag string, choices map[string]T) (T, error) {
	v, ok := choices[c.String(flag)]
	if !ok {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(choices)), func(name string) bool { return name == "" })
		return v, &UsageError{Where: "--" + flag, What: fmt.Sprintf("%q is none of its values", c.String(flag)), Advice: "choose one of " + strings.Join(names, ", ")}
	}
	return v, nil
}

// Address returns the value of a flag that is a host and a port to listen on, "" if the
// flag is empty.
func Address(c *cli.Context, flag string) (string, error) {
	v := c.String(flag)
	if v == "" {
		return "", nil
	}
	_, port, err := net.SplitHostPort(v)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", &UsageError{Where: "--" + flag, What: fmt.Sprintf("%q is no address", v), Advice: "write host:port, or :port for all interfaces"}
	}
	return v, nil
}

// Needed returns the text of a flag that must be given.
func Needed(c *cli.Context, flag, advice string) (string, error) {
	if v := c.String(flag); v != "" {
		return v, nil
	}
	return "", &UsageError{Where: "--" + flag, What: "is not given", Advice: advice}
}
