package failpoint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/cli/failpoint"
)

// death is what the tests' programs are killed by: a panic, so that nothing follows.
type death struct{}

// dies runs acts one after the other, and returns how many were done before one of them
// was deadly.
func dies(acts ...func()) (done int) {
	defer func() {
		if r := recover(); r != nil && r != (death{}) {
			panic(r)
		}
	}()
	for _, act := range acts {
		act()
		done++
	}
	return done
}

// trap returns a trap for the second time that a point is reached.
func trap(t *testing.T, p failpoint.Point) *failpoint.Trap {
	t.Helper()
	trap, err := failpoint.New(failpoint.Config{Point: p, N: 2, Kill: func() { panic(death{}) }})
	require.NoError(t, err)
	return trap
}

func TestParse(t *testing.T) {
	for _, p := range failpoint.Points() {
		got, n, err := failpoint.Parse(string(p) + ":12")
		require.NoError(t, err)
		require.Equal(t, p, got)
		require.Equal(t, int64(12), n)
	}
	for text, complaint := range map[string]string{
		"":                   `"" is no point`,
		"nowhere:1":          `"nowhere" is no point`,
		":1":                 `"" is no point`,
		"before-send":        "at which time",
		"before-send:0":      "at which time",
		"before-send:-1":     "at which time",
		"before-send:1:2":    "at which time",
		"before-send:always": "at which time",
	} {
		_, _, err := failpoint.Parse(text)
		require.ErrorContains(t, err, complaint, text)
	}
}

func TestConfigIsChecked(t *testing.T) {
	kill := func() {}
	for name, c := range map[string]failpoint.Config{
		"no point":      {N: 1, Kill: kill},
		"unknown point": {Point: "nowhere", N: 1, Kill: kill},
		"no time":       {Point: failpoint.BeforeSend, Kill: kill},
		"no killer":     {Point: failpoint.BeforeSend, N: 1},
	} {
		_, err := failpoint.New(c)
		require.Error(t, err, name)
	}
}
