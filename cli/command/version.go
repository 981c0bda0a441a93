package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:   "version",
		Usage:  "say which version this is",
		Before: shell.NoArguments,
		Action: func(c *cli.Context) error {
			_, err := fmt.Fprintln(c.App.Writer, "argocd-agent", version())
			return err
		},
	}
}

// version says which version of the program this is.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return describe(info)
}

// describe says what a binary was built from: its module's version, or the commit where
// it was built from a checkout.
func describe(info *debug.BuildInfo) string {
	version, commit, edited := "(unknown)", "", ""
	if info != nil {
		version = info.Main.Version
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
