package command

import (
	"bytes"
	"context"
	"os"
	"runtime/debug"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSignalsAreHeeded(t *testing.T) {
	const never = time.Hour
	ends := func(code int, after time.Duration) func(context.Context) int {
		return func(ctx context.Context) int {
			<-ctx.Done()
			<-time.After(after) // virtual
			return code
		}
	}
	byItself := func(code int) func(context.Context) int { return func(context.Context) int { return code } }
	for name, c := range map[string]struct {
		run     func(context.Context) int
		signals int
		code    int
		after   time.Duration
		says    string
	}{
		"ends by itself":     {byItself(shell.Usage), 0, shell.Usage, 0, ""},
		"ends when asked":    {ends(shell.OK, 19*time.Second), 1, shell.OK, 19 * time.Second, ""},
		"fails when asked":   {ends(shell.Fault, 0), 1, shell.Fault, 0, ""},
		"takes too long":     {ends(shell.OK, never), 1, shell.Fault, grace, "argocd-agent: not closed within 20s of the signal: ended all the same\n"},
		"is asked once more": {ends(shell.OK, never), 2, shell.Fault, 0, "argocd-agent: a second signal: ended before everything was closed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals := make(chan os.Signal, 2)
				for range c.signals {
					signals <- syscall.SIGTERM
				}
				var said bytes.Buffer
				began := time.Now()
				require.Equal(t, c.code, heed(signals, grace, &said, c.run))
				require.Equal(t, c.after, time.Since(began))
				require.Equal(t, c.says, said.String())
				<-time.After(2 * never) // the bubble must be empty
			})
		})
	}
}

func TestVersionSaysWhatItWasBuiltFrom(t *testing.T) {
	require.Contains(t, version(), "go1.")
	require.Contains(t, describe("", nil), "(unknown) ")
	require.Contains(t, describe("v2", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}), "v2 go1.")
	require.Contains(t, describe("", &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	}), "v1.2.3 commit abc (edited) ")
}
