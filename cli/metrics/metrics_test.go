package metrics_test

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/cli/metrics"
	"github.com/argocd-fabric/argocd-agent/proxy/redis"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport"
)

var update = flag.Bool("update", false, "write METRICS.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// busy is a link of which nothing is zero.
func busy(agent string) metrics.Link {
	absent := []engine.Absent{{UID: "1"}}
	return metrics.Link{Agent: agent, State: "serving", Letters: 9, Expires: time.Unix(1700000000, 0), Session: session.Status{
		Connected: true, DeadLetters: 8, Err: errors.New("it fails"), Counts: session.Counts{Sent: 12, ReceivedBytes: 13, Met: 14, Refused: 15},
		Engine: engine.Status{
			InStep: true, Rows: 2, Copied: 3, Held: absent, Theirs: absent, Failed: 4, Writing: 5, Faults: 6, Pending: 7, FaultsSet: 10, PendingSet: 11,
		},
	}}
}

// scrape returns what is served, without what is said of every Go program.
func scrape(t *testing.T, s metrics.Source) []string {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.Handler(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "go_goroutines")
	var out []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "argocd_agent_") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func TestWhatIsTold(t *testing.T) {
	links := []metrics.Link{busy("edge-1"), {Agent: "edge-2", State: "failing"}}
	source := metrics.Source{
		Version: "v1", Refused: func() map[string]uint64 { return map[string]uint64{"blocked": 16} }, Paces: &session.Paces{},
		Links:    func() []metrics.Link { return links },
		Conflict: func() bool { return true },
		Live:     func() metrics.Live { return metrics.Live{UnderWay: 3, Total: map[string]uint64{"away": 4}} },
		Expiry:   func() time.Time { return time.Unix(1800000000, 0) },
		Troubles: func() []transport.Trouble {
			return []transport.Trouble{{Agent: "edge-1", What: "log quota", Since: time.Now().Add(-time.Hour)}}
		},
		Redis: func() redis.Stats {
			return redis.Stats{Read: map[redis.Outcome]uint64{redis.Kept: 12}, Away: map[string]time.Duration{"edge-1": time.Minute}}
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
		`argocd_agent_controller_conflict 1`, `argocd_agent_certificate_expiry_timestamp_seconds 1.8e+09`,
		`argocd_agent_live_requests 3`, `argocd_agent_live_requests_total{outcome="away"} 4`,
		`argocd_agent_redis_reads_total{outcome="kept"} 12`, `argocd_agent_redis_age_seconds{agent="edge-1"} 60`,
		`argocd_agent_build_info{version="v1"} 1`, `argocd_agent_refusals_total{reason="blocked"} 16`,
		`argocd_agent_messages_total{agent="edge-1",direction="sent"} 12`, `argocd_agent_message_bytes_total{agent="edge-1",direction="received"} 13`,
		`argocd_agent_connections_total{agent="edge-1"} 14`, `argocd_agent_writes_total{agent="edge-1",outcome="refused"} 15`,
		`argocd_agent_peer_certificate_expiry_timestamp_seconds{agent="edge-1"} 1.7e+09`, `argocd_agent_write_seconds_bucket{le="0.001"} 0`,
		`argocd_agent_agents{state="failing"} 1`, `argocd_agent_agents{state="serving"} 1`,
	} {
		require.Contains(t, lines, want)
	}
	require.True(t, slices.ContainsFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, `argocd_agent_store_trouble_seconds{agent="edge-1",what="log quota"} 36`)
	}), "%q", lines)

	links = links[1:]
	source.Troubles, source.Conflict, source.Redis = nil, nil, nil
	for _, line := range scrape(t, source) {
		require.NotContains(t, line, "conflict", "an agent does not know")
		require.NotContains(t, line, "edge-1", "the series of an agent end with it")
	}
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
		_, labels, _ := strings.Cut(d.String(), "variableLabels: {")
		labels, _, _ = strings.Cut(labels, "}")
		kind := "gauge"
		switch {
		case strings.HasSuffix(name, "_total"):
			kind = "counter"
		case strings.HasPrefix(help, "From when "):
			kind = "histogram"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", name, kind, strings.ReplaceAll(labels, ",", ", "), help))
	}
	slices.Sort(rows)
	text := "# Metrics\n\nUnder `/metrics` of the principal (port 8000) and of each agent (port 8181), beside those of every Go program.\n\n" +
		"| metric | type | labels | what it tells |\n|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile("METRICS.md", []byte(text), 0o644))
	}
	is, err := os.ReadFile("METRICS.md")
	require.NoError(t, err)
	require.Equal(t, text, string(is), "go test ./cli/metrics -update writes it")
}
