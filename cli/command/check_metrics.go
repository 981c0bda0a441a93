package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// connectedAt reports whether an agent of that name says at a port of this host that it is
// connected.
func connectedAt(ctx context.Context, port int, agent string) (bool, error) {
	return measured(ctx, port, "argocd_agent_connected", agent)
}

// inStepAt reports whether it says that it has all that the principal has to say.
func inStepAt(ctx context.Context, port int, agent string) (bool, error) {
	return measured(ctx, port, "argocd_agent_in_step", agent)
}

// measured reports whether a metric of an agent is 1.
func measured(ctx context.Context, port int, metric, agent string) (bool, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", port), nil)
	if err != nil {
		return false, fmt.Errorf("command: ask the agent: %w", err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return false, fmt.Errorf("command: ask the agent: %w", err)
	}
	defer answer.Body.Close()
	return isOne(answer.Body, fmt.Sprintf("%s{agent=%q}", metric, agent))
}

// isOne reports whether a series has the value 1 in a page of metrics.
func isOne(page io.Reader, series string) (bool, error) {
	lines := bufio.NewScanner(io.LimitReader(page, 16<<20))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			return strings.TrimSpace(value) == "1", nil
		}
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("command: read metrics: %w", err)
	}
	return false, fmt.Errorf("command: read metrics: there is no %s", series)
}
