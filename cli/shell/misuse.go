package shell

import (
	"fmt"
	"regexp"

	"github.com/urfave/cli/v2"
	"github.com/urfave/cli/v2/altsrc"
)

// misused says in our words what the library found wrong with a command line.
func misused(c *cli.Context, err error, _ bool) error {
	u := &UsageError{Where: commandLine(c), What: err.Error(), Advice: "see --help"}
	for _, m := range mistakes {
		if found := m.says.FindStringSubmatch(u.What); found != nil {
			m.tell(u, c, found[1:])
			break
		}
	}
	return u
}

func misuse(c *cli.Context, format string, args ...any) error {
	return misused(c, fmt.Errorf(format, args...), false)
}

// mistakes are the library's texts, and Go's, for what happens to people.
var mistakes = []struct {
	says *regexp.Regexp
	tell func(u *UsageError, c *cli.Context, found []string)
}{
	{regexp.MustCompile(`^flag provided but not defined: -(.*)$`), func(u *UsageError, _ *cli.Context, found []string) {
		u.What = "there is no flag --" + found[0]
	}},
	{regexp.MustCompile(`^flag needs an argument: -+(.*)$`), func(u *UsageError, _ *cli.Context, found []string) {
		u.Where, u.What = "--"+found[0], "has no value"
	}},
	{regexp.MustCompile(`^invalid (?:boolean )?value ("[^"]*") for (?:flag )?-+(\S+): (?:parse error|value out of range)$`), func(u *UsageError, c *cli.Context, found []string) {
		u.Where, u.What = "--"+found[1], found[0]+" "+unfit(c, found[1])
	}},
	{regexp.MustCompile(`^could not parse ("[^"]*") as \S+ value from (?:environment variable )?"(\S+)" for flag (\S+): `), func(u *UsageError, c *cli.Context, found []string) {
		u.Where, u.What = found[1], found[0]+" "+unfit(c, found[2])
	}},
}

// unfit says what a value is not that a flag did not take.
func unfit(c *cli.Context, name string) string {
	switch flagNamed(c, name).(type) {
	case *cli.IntFlag, *altsrc.IntFlag:
		return "is no whole number"
	case *cli.BoolFlag, *altsrc.BoolFlag:
		return "is neither true nor false"
	case *cli.DurationFlag, *altsrc.DurationFlag:
		return "is no duration such as 1s or 24h"
	}
	return "is no value for it"
}
