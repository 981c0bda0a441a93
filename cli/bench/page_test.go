package bench

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePageHasTheCommandAboveEachFigure has a program that says what a row has measured, and
// ends with 1.
func TestThePageHasTheCommandAboveEachFigure(t *testing.T) {
	p := Page{
		Program: []string{"sh", "-c", `echo '{"row":"'$1'","measures":[{"name":"a figure","median":1.5,"worst":2,"goal":"≤ 1","met":false},{"name":"another","median":7,"worst":7,"met":true}],"ok":false,"verdict":"it is bad"}'; exit 1`, "sh"},
		Name:    "argocd-agentctl bench", Rows: []string{"away"}, Progress: io.Discard,
	}
	page, ok, err := p.Make(t.Context())
	require.NoError(t, err)
	require.False(t, ok)
	for _, want := range []string{
		"\n## away: ", "Row 9. ", "What limits it: ",
		"```\nargocd-agentctl bench away --transport nats\n```\n",
		"```\nargocd-agentctl bench away --transport grpc\n```\n",
		"| a figure | 1.50 | 2 | ≤ 1 | **missed** |\n| another | 7 | 7 |  |  |\n",
		"**It failed**: it is bad\n", "Machine: ", " cores",
	} {
		require.Contains(t, string(page), want)
	}
	p.Program = []string{"sh", "-c", "echo it is broken >&2; exit 1"}
	_, _, err = p.Make(t.Context())
	require.ErrorContains(t, err, "it is broken")
}

func TestDescribe(t *testing.T) {
	require.Regexp(t, `^2 cores \(Fast One, 2096\.5 MHz\), 23 GiB of memory, \w+/\w+, go1`,
		describe(2, "processor\t: 0\nmodel name\t: Fast One\ncpu MHz\t\t: 2096.5\n", "MemTotal:       24120000 kB\n"))
	require.Regexp(t, `^1 cores, \w+/`, describe(1, "", ""))
}
