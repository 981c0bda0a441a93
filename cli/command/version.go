package command

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// release is which release this is, where the linker was told (-X, see deploy/image): the
// only thing that is known of a binary that is built without its checkout's history.
var release string

// VersionCommand says which version a program is.
func VersionCommand() *cli.Command {
	return &cli.Command{
		Name:   "version",
		Usage:  "say which version this is",
		Before: shell.NoArguments,
		Action: func(c *cli.Context) error {
			_, err := fmt.Fprintln(c.App.Writer, c.App.Name, version())
			return err
		},
	}
}

// version says which version of the program this is.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return describe(release, info)
}

// describe says what a binary was built from: its release or else its module's version, and
// the commit where it was built from a checkout.
func describe(release string, info *debug.BuildInfo) string {
	version, commit, edited := cmp.Or(release, "(unknown)"), "", ""
	if info != nil {
		version = cmp.Or(release, info.Main.Version)
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = " commit " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				edited = " (edited)"
			}
		}
	}
	return fmt.Sprintf("%s%s%s %s %s/%s", version, commit, edited, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
