package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

// whole shows all of some agents.
func whole(agents []admin.Agent) choice {
	return choice{admin.Agents{Principal: admin.Self{Identity: "hub-1"}, Agents: agents}, agents}
}

// served returns an agent that is there, and has all.
func served(name string) admin.Agent {
	return admin.Agent{
		Name: name, Mode: "autonomous", State: "observing", Connected: true, Since: time.Now().Add(-100 * time.Minute),
		Version: "v1.20.30-rc.1+build commit 0123456789 go1.26", Protocol: &admin.Protocol{Oldest: 1, Newest: 4}, Expires: time.Now().Add(90*day + time.Minute),
		Down: admin.Flow{Known: true, Whole: true}, Up: admin.Flow{Known: true, Whole: true}, Spoke: &admin.Side{},
	}
}

func TestTableIsNoWiderThanAPage(t *testing.T) {
	one, other := served(strings.Repeat("long-", 12)), served("short")
	one.Down = admin.Flow{Known: true, Backlog: 12345, Lag: 119 * 60}
	one.Hub = admin.Side{Retrying: 1234, DeadLetters: 1234, Waiting: 1234}
	one.Error = strings.Repeat("it fails ", 9)
	var b bytes.Buffer
	require.NoError(t, fleet(&b, whole([]admin.Agent{one, other}), false, 0))
	lines := strings.Split(b.String(), "\n")
	for _, line := range lines[:3] {
		require.LessOrEqual(t, utf8.RuneCountInString(line), pageWidth)
	}
	require.Equal(t, []string{"AGENT", "MODE", "STATE", "LINK", "LAG", "BACKLOG", "RETRY", "HELD", "WAIT", "DEAD", "VERSION", "PROTO", "CERT"}, strings.Fields(lines[0]))
	require.Regexp(t, `^long-[-a-z]*… +autonomous +observing +up 100m +119m\+/0s +12345\+/0 +1234 +0 +1234 +1234 +v1\.20\.30-… +1-4 +90d$`, lines[1])
	require.Equal(t, one.Name+": "+strings.TrimSpace(one.Error), strings.TrimSpace(lines[3]))
	require.Equal(t, "2 agents: 2 up, 0 away, 1 behind (119m), 1 failing, 0 certificates to expire within 7d", lines[4])
	require.Equal(t, "principal hub-1: version -, protocol -, certificate -", lines[5])

	b.Reset()
	require.NoError(t, fleet(&b, whole([]admin.Agent{one, other}), true, 0))
	require.Contains(t, b.String(), one.Name+" ")
	require.Contains(t, b.String(), one.Version)
}

func TestFleetIsAsLongAsTheScreen(t *testing.T) {
	var all []admin.Agent
	for i := range 10_000 {
		all = append(all, served(fmt.Sprintf("edge-%05d", i)))
	}
	var b bytes.Buffer
	require.NoError(t, fleet(&b, whole(all), false, 24))
	require.LessOrEqual(t, strings.Count(b.String(), "\n"), 24)
	require.Contains(t, b.String(), "\n... and 9980 more\n10000 agents: 10000 up")
}

// asking runs the program against a principal that has these agents.
func asking(t *testing.T, agents []admin.Agent, args ...string) (code int, out, errs string) {
	principal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		require.NoError(t, json.NewEncoder(w).Encode(admin.Agents{Agents: agents}))
	}))
	defer principal.Close()
	t.Setenv("ARGOCD_AGENT_PRINCIPAL_ADDRESS", principal.URL)
	var stdout, stderr bytes.Buffer
	code = Main(append([]string{"argocd-agentctl", "status"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestStatusChoosesAndSorts(t *testing.T) {
	a, b, c := served("a"), served("b"), served("c")
	a.Down.Lag, a.Down.Backlog = 11, 1
	b.Connected, b.Up.Lag, b.Expires = false, 3600, time.Now().Add(time.Hour)
	c.Hub.DeadLetters = 1
	all := []admin.Agent{a, b, c, served("fine")}
	shown := func(args ...string) (names string) {
		code, out, errs := asking(t, all, append(args, "-o", "json")...)
		require.Equal(t, shell.OK, code, errs)
		var got admin.Agents
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		for _, a := range got.Agents {
			names += " " + a.Name
		}
		return names
	}
	require.Equal(t, " a b c fine", shown())
	require.Equal(t, " b a c fine", shown("--sort", "lag"))
	require.Equal(t, " a b c fine", shown("--sort", "backlog"))
	require.Equal(t, " c a b fine", shown("--sort", "failing"))
	require.Equal(t, " b a", shown("--sort", "expiry", "--only", "behind"))
	require.Equal(t, " b", shown("--only", "away"))
	require.Equal(t, " b c", shown("--only", "failing,away"))
	code, out, _ := asking(t, all, "--only", "failing")
	require.Equal(t, shell.OK, code)
	require.Contains(t, out, "4 agents: 3 up, 1 away, 2 behind (60m), 1 failing, 1 certificate to expire within 7d; 1 shown\n")
	for _, bad := range [][]string{{"--only", "late"}, {"--sort", "size"}, {"--interval", "0s"}} {
		code, _, errs := asking(t, all, bad...)
		require.Equal(t, shell.Usage, code, errs)
	}
}

func TestWatchShowsItAgain(t *testing.T) {
	for name, c := range map[string]struct {
		on   screen
		want string
	}{
		"pipe":     {screen{}, "page 1\n\npage 2\n\nno principal\n\npage 4\n"},
		"terminal": {screen{9, 5}, newPage + home + "page…" + endLine + "\n" + endPage + home + "page…" + endLine + "\n" + endPage + home + "no p…" + endLine + "\n" + endPage + home + "page…" + endLine + "\n" + endPage},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var b bytes.Buffer
			n := 0
			s := watcher{interval: 1, screen: func() screen { return c.on }}
			require.NoError(t, s.run(ctx, &b, func(_ context.Context, w io.Writer) error {
				switch n++; n {
				case 3:
					return errors.New("no principal")
				case 5:
					stop()
					return ctx.Err()
				}
				_, err := fmt.Fprintln(w, "page", n)
				return err
			}), "it ends well when it is told to")
			require.Equal(t, c.want, b.String())
		})
	}
	s := watcher{interval: 1, screen: func() screen { return screen{} }}
	require.EqualError(t, s.run(t.Context(), io.Discard, func(context.Context, io.Writer) error { return errors.New("no principal") }), "no principal")
}
