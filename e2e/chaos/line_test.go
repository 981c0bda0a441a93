package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// A line leads from an agent to the principal. What crosses it is counted.
type line struct {
	*netfault.Line
	proxy *toxiproxy.Proxy
}

// A toxic is what toxiproxy does to connections. It knows more of them under these names.
type toxic struct {
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`
	Attributes map[string]any `json:"attributes"`
}

// both returns a toxic for both directions.
func both(typ string, attributes map[string]any) []toxic {
	return []toxic{{typ, "upstream", attributes}, {typ, "downstream", attributes}}
}

// down in place of toxics has nothing be there: connections are closed, and new ones refused.
const down = "down"

// toxics are what can befall a line: times are in milliseconds, a rate is in kB/s.
var toxics = map[string][]toxic{
	down:             nil,
	"latency":        both("latency", map[string]any{"latency": 150, "jitter": 0}),
	"jitter":         both("latency", map[string]any{"latency": 200, "jitter": 200}),
	"bandwidth":      both("bandwidth", map[string]any{"rate": 8}),
	"reset":          both("reset_peer", map[string]any{"timeout": 50}),
	"late reset":     both("reset_peer", map[string]any{"timeout": 700}),
	"half open":      both("timeout", map[string]any{"timeout": 0}),
	"half open up":   {{"timeout", "upstream", map[string]any{"timeout": 0}}},
	"half open down": {{"timeout", "downstream", map[string]any{"timeout": 0}}},
	"timeout":        both("timeout", map[string]any{"timeout": 1000}),
	"slow close":     both("slow_close", map[string]any{"delay": 2000}),
	"cut amid":       both("limit_data", map[string]any{"bytes": 3000}),
}

func toxicNames() []string { return slices.Sorted(maps.Keys(toxics)) }

// newLine lays a line to an address, by a port that is free.
func newLine(t *testing.T, name string, port int, to string) *line {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &line{proxy: toxiproxy.NewProxy(server, name, fmt.Sprint("127.0.0.1:", port), to)}
	require.NoError(t, l.proxy.Start())
	counted, err := netfault.Listen(func() string { return fmt.Sprint("127.0.0.1:", port) })
	require.NoError(t, err)
	l.Line = counted
	t.Cleanup(func() {
		l.proxy.Stop()
		require.NoError(t, counted.Close())
	})
	return l
}

// befall has one of toxics befall the line.
func (l *line) befall(what string) error {
	if what == down {
		l.proxy.Stop()
		return nil
	}
	for _, one := range toxics[what] {
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
		if _, err := l.proxy.Toxics.AddToxicJson(bytes.NewReader(text)); err != nil {
			return fmt.Errorf("toxiproxy: add %s: %w", text, err)
		}
	}
	return nil
}

// heal ends what has befallen the line. Connections that have suffered may stay as they are.
func (l *line) heal(ctx context.Context, what string) error {
	if what == down {
		return l.proxy.Start()
	}
	l.proxy.Toxics.ResetToxics(ctx)
	return nil
}
