package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
)

// What agents say reaches a terminal as text, in one line each.
func TestTablesShowTextOnly(t *testing.T) {
	require.Equal(t, "a�[2Jb c d", shell.Line("a\x1b[2Jb\nc\td"))
	require.Equal(t, "straße �evil", shell.Line("straße \u202eevil"))
	var b bytes.Buffer
	require.NoError(t, letterTable(&b, admin.Letters{Letters: []admin.Letter{
		{Agent: "edge-1", Side: "spoke", Letter: ledger.Letter{ID: "1", Key: "Application/web", Cause: "refused", Reason: "no\x1b[31m\nway"}},
	}}))
	require.Equal(t, 2, strings.Count(b.String(), "\n"))
	require.NotContains(t, b.String(), "\x1b")
	b.Reset()
	require.NoError(t, differences(&b, []admin.Verdict{{Agent: "a", Objects: 2, Error: "\x1b[0m", Differences: []admin.Difference{{Key: "Application/web", What: "spec", Hub: "\x07", Reason: "why"}}}}))
	require.Equal(t, "a: not compared: �[0m\na: Application/web: spec: hub has �, spoke has nothing (why)\n1 difference in 2 objects, and 1 of 1 agent not compared\n", b.String())
}

// Deletions that wait for an agent are counted and, if the agent is away, it is said how to
// go on.
func TestStatusShowsDeletionsThatWait(t *testing.T) {
	since := time.Now().Add(-3 * time.Hour)
	var b bytes.Buffer
	require.NoError(t, fleet(&b, whole([]admin.Agent{
		{Name: "away", Mode: "managed", State: "serving", Since: since, Hub: admin.Side{Waiting: 3}},
		{Name: "idle", Mode: "managed", State: "serving", Since: since},
		{Name: "new", Mode: "managed", State: "serving", Hub: admin.Side{Waiting: 1}},
		{Name: "there", Mode: "managed", State: "observing", Connected: true, Since: since, Hub: admin.Side{Waiting: 2}, Spoke: &admin.Side{}},
	}), false, 0))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Len(t, lines, 9)
	require.Regexp(t, `^away +managed +serving +away 3h +\?/\? +\?/\? +0\+\? +0 +3 +0\+\? +- +-$`, lines[1])
	require.Regexp(t, `^there +managed +observing +up 3h +\?/\? +\?/\? +0 +0 +2 +0 +- +-$`, lines[4])
	require.Equal(t, "waiting for away, which is away since "+since.UTC().Format(time.RFC3339)+" (3h): 3 deletions; if it is gone for good: argocd-agentctl agent release-deletions away --reason ...", lines[5])
	require.Equal(t, "waiting for new, which was not there since the principal started: 1 deletion; if it is gone for good: argocd-agentctl agent release-deletions new --reason ...", lines[6])
}

func TestAgesAreShort(t *testing.T) {
	now := time.Now()
	for want, d := range map[string]time.Duration{"0s": -time.Hour, "90s": 90 * time.Second, "2m": 2 * time.Minute, "119m": 119 * time.Minute, "47h": 47 * time.Hour, "2d": 50 * time.Hour} {
		require.Equal(t, want, ago(now, now.Add(-d)))
	}
	require.Equal(t, "never", ago(now, time.Time{}))
}

// control runs the program against a principal that has these letters, and returns its
// code, and what it says.
func control(t *testing.T, letters []admin.Letter, args ...string) (code int, out, errs string, changed []string) {
	principal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			changed = append(changed, r.URL.Path)
			if strings.Contains(r.URL.Path, "/two/") {
				w.WriteHeader(http.StatusServiceUnavailable)
				require.NoError(t, json.NewEncoder(w).Encode(admin.Failure{Error: "peer is not there"}))
				return
			}
		}
		var those []admin.Letter
		for _, l := range letters {
			if name := r.FormValue("agent"); name == "" || name == l.Agent {
				those = append(those, l)
			}
		}
		require.NoError(t, json.NewEncoder(w).Encode(admin.Letters{Letters: those}))
	}))
	defer principal.Close()
	t.Setenv("ARGOCD_AGENT_PRINCIPAL_ADDRESS", principal.URL)
	var stdout, stderr bytes.Buffer
	code = Main(append([]string{"argocd-agentctl"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String(), changed
}

// An id that two letters have is none before it is said whose is meant.
func TestIdsAreUnambiguous(t *testing.T) {
	letter := func(agent, side, id string) admin.Letter {
		return admin.Letter{Agent: agent, Side: side, Letter: ledger.Letter{ID: id, Key: "Application/web"}}
	}
	all := []admin.Letter{letter("one", "spoke", "0a"), letter("three", "spoke", "0a"), letter("two", "spoke", "0b"), letter("one", "hub", "0c")}
	code, _, errs, changed := control(t, all, "deadletter", "drop", "0a")
	require.Equal(t, shell.Usage, code)
	require.Equal(t, "argocd-agentctl: deadletter drop: agents one and three both have a dead letter 0a; say which is meant by --agent, and by --side if need be\n", errs)
	require.Empty(t, changed)

	code, out, _, changed := control(t, all, "deadletter", "drop", "0a", "--agent", "three")
	require.Equal(t, shell.OK, code)
	require.Equal(t, "dropped 1 of 1 dead letters\n", out)
	require.Equal(t, []string{"/v1/agents/three/letters/spoke/0a/drop"}, changed)

	code, out, errs, changed = control(t, all, "deadletter", "retry", "--all", "--side", "spoke")
	require.Equal(t, shell.Fault, code)
	require.Equal(t, "retried 2 of 3 dead letters\n", out)
	require.Equal(t, "argocd-agentctl: control: 0b of agent two: peer is not there\n", errs)
	require.Len(t, changed, 3)
}

// Nobody approves what he was not asked.
func TestConfirmation(t *testing.T) {
	ask := func(flags ...string) error {
		app := &cli.App{
			Reader: strings.NewReader("y\n"), Writer: &bytes.Buffer{}, Flags: []cli.Flag{&cli.BoolFlag{Name: "yes"}},
			Action: func(c *cli.Context) error {
				sure, err := confirmed(c, "sure?")
				require.Equal(t, err == nil, sure)
				return err
			},
		}
		return app.Run(append([]string{"tool"}, flags...))
	}
	require.NoError(t, ask("--yes"))
	var usage *shell.UsageError
	require.True(t, errors.As(ask(), &usage), "a pipe is no terminal")
	require.Equal(t, "add --yes", usage.Advice)
}
