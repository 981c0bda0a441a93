package metrics_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/cli/metrics"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport"
)

var update = flag.Bool("update", false, "write METRICS.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// busy is a link of which nothing is zero.
func busy(agent string) metrics.Link {
	absent := []engine.Absent{{UID: "1"}}
	return metrics.Link{Agent: agent, State: "serving", Letters: 9, Session: session.Status{
		Connected: true, DeadLetters: 8, Err: errors.New("it fails"),
		Engine: engine.Status{
			InStep: true, Rows: 2, Copied: 3, Held: absent, Theirs: absent, Failed: 4, Writing: 5, Faults: 6, Pending: 7, FaultsSet: 10, PendingSet: 11,
		},
	}}
}

// scrape returns what a server says, without what is said of every Go program.
func scrape(t *testing.T, s metrics.Source) []string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	address := free(t)
	go func() { ended <- metrics.Server{Address: address, Source: s}.Run(ctx) }()
	defer func() {
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
		http.DefaultClient.CloseIdleConnections()
	}()
	var answer *http.Response
	var err error
	for range 100 {
		if answer, err = http.Get("http://" + address + "/metrics"); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	var out []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "argocd_agent_") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestWhatIsTold(t *testing.T) {
	links := []metrics.Link{busy("edge-1"), {Agent: "edge-2", State: "failing"}}
	source := metrics.Source{
		Links: func() []metrics.Link { return links },
		Troubles: func() []transport.Trouble {
			return []transport.Trouble{{Agent: "edge-1", What: "log quota", Since: time.Now().Add(-time.Hour)}}
		},
	}
	lines := scrape(t, source)
	for _, want := range []string{
		`argocd_agent_connected{agent="edge-1"} 1`, `argocd_agent_connected{agent="edge-2"} 0`,
		`argocd_agent_in_step{agent="edge-1"} 1`, `argocd_agent_rows{agent="edge-1"} 2`, `argocd_agent_copied_rows{agent="edge-1"} 3`,
		`argocd_agent_writes_failing{agent="edge-1"} 4`, `argocd_agent_writes_in_flight{agent="edge-1"} 5`,
		`argocd_agent_object_errors{agent="edge-1"} 6`, `argocd_agent_object_pending{agent="edge-1"} 7`,
		`argocd_agent_dead_letters{agent="edge-1"} 8`, `argocd_agent_dead_letters_total{agent="edge-1"} 9`,
		`argocd_agent_object_errors_total{agent="edge-1"} 10`, `argocd_agent_object_pending_total{agent="edge-1"} 11`,
		`argocd_agent_held_deletions{agent="edge-1"} 2`, `argocd_agent_failing{agent="edge-1"} 1`, `argocd_agent_failing{agent="edge-2"} 0`,
		`argocd_agent_agents{state="failing"} 1`, `argocd_agent_agents{state="serving"} 1`,
	} {
		require.Contains(t, lines, want)
	}
	require.True(t, slices.ContainsFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, `argocd_agent_store_trouble_seconds{agent="edge-1",what="log quota"} 36`)
	}), "%q", lines)

	links = links[1:]
	source.Troubles = nil
	for _, line := range scrape(t, source) {
		require.NotContains(t, line, "edge-1", "the series of an agent end with it")
	}
}

func TestATakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	err = metrics.Server{Address: l.Addr().String()}.Run(t.Context())
	require.ErrorContains(t, err, "choose another --metrics-port")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, metrics.Server{}.Run(ctx), context.Canceled)
}

// TestTheTableIsWritten keeps METRICS.md equal to what there is.
func TestTheTableIsWritten(t *testing.T) {
	descriptions := make(chan *prometheus.Desc, 100)
	metrics.NewCollector(metrics.Source{}).Describe(descriptions)
	close(descriptions)
	var rows []string
	for d := range descriptions {
		var name, help string
		_, err := fmt.Sscanf(d.String(), "Desc{fqName: %q, help: %q", &name, &help)
		require.NoError(t, err, d.String())
		labels := "agent"
		switch {
		case strings.HasSuffix(name, "_agents"):
			labels = "state"
		case strings.HasSuffix(name, "_store_trouble_seconds"):
			labels = "agent, what"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", name, labels, help))
	}
	slices.Sort(rows)
	text := "# Metrics\n\nUnder `/metrics` of the principal (port 8000) and of each agent (port 8181), beside those of every Go program.\n\n" +
		"| metric | labels | what it tells |\n|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile("METRICS.md", []byte(text), 0o644))
	}
	is, err := os.ReadFile("METRICS.md")
	require.NoError(t, err)
	require.Equal(t, text, string(is), "go test ./cli/metrics -update writes it")
}
