package shell

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// A Check returns what is wrong with the value of a flag, nil if nothing is. It is made before a command
// does anything, and of each flag that is given: also of one of no use with the others, so that what is
// said of it does not depend on them.
type Check[T any] func(flag string, value T) error

// Checked is a Check as the library has it, for a flag of that name.
func Checked[T any](flag string, check Check[T]) func(*cli.Context, T) error {
	return func(_ *cli.Context, v T) error { return check(flag, v) }
}

// From is the Check of a number that must be between two, with what to do.
func From(least, most int, advice string) Check[int] {
	return func(flag string, v int) error {
		switch {
		case v >= least && v <= most:
			return nil
		case most == math.MaxInt:
			return &UsageError{Where: "--" + flag, What: fmt.Sprintf("%d is below %d", v, least), Advice: advice}
		}
		return &UsageError{Where: "--" + flag, What: fmt.Sprintf("%d is not from %d to %d", v, least, most), Advice: advice}
	}
}

// AnyNumber is the Check of one that may be any.
func AnyNumber(string, int) error { return nil }

// Port is the Check of a port, or 0.
func Port(flag string, v int) error {
	if v < 0 || v > 65535 {
		return &UsageError{Where: "--" + flag, What: fmt.Sprintf("%d is no port", v), Advice: "choose one from 1 to 65535, or 0 for none"}
	}
	return nil
}

// Positive is the Check of a duration that must be above zero.
func Positive(flag string, v time.Duration) error {
	if v <= 0 {
		return &UsageError{Where: "--" + flag, What: fmt.Sprintf("%v is not above zero", v), Advice: "write a duration such as 1s"}
	}
	return nil
}

// NotNegative is the Check of a duration that may be nought.
func NotNegative(flag string, v time.Duration) error {
	if v < 0 {
		return &UsageError{Where: "--" + flag, What: fmt.Sprintf("%v is below zero", v), Advice: "write a duration such as 24h, or 0"}
	}
	return nil
}

// List returns the items of a text with commas between. One that is empty is none.
func List(text string) (items []string) {
	if text == "" {
		return nil
	}
	for item := range strings.SplitSeq(text, ",") {
		items = append(items, strings.TrimSpace(item))
	}
	return items
}

// Listed is the Check of a text that is a List: no item is empty, or is there twice.
func Listed(flag, text string) error {
	for i, items := 0, List(text); i < len(items); i++ {
		switch {
		case items[i] == "":
			return &UsageError{Where: "--" + flag, What: fmt.Sprintf("an item of %q is empty", text), Advice: "write items with a comma between them, or nothing at all"}
		case slices.Contains(items[:i], items[i]):
			return &UsageError{Where: "--" + flag, What: items[i] + " is there twice", Advice: "leave it out once"}
		}
	}
	return nil
}

// EachGiven is the Check of a flag that may be repeated: no value is empty.
func EachGiven(flag string, values []string) error {
	if slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" }) {
		return &UsageError{Where: "--" + flag, What: "is empty", Advice: "give it a value, or leave it out"}
	}
	return nil
}

// recheck makes the Checks of flags that were set after the library has made those of the others.
func recheck(c *cli.Context) error {
	for _, f := range c.Command.Flags {
		if check, is := f.(cli.ActionableFlag); is && c.IsSet(f.Names()[0]) {
			if err := check.RunAction(c); err != nil {
				return err
			}
		}
	}
	return nil
}
