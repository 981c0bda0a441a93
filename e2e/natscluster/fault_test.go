package natscluster

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/cli/natsservers"
	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// rounds is how often everything is hurt. One is enough to see that nothing is lost; how long nothing comes
// differs from time to time.
var rounds = flag.Int("rounds", 1, "how often each fault is made")

// Whatever is killed, nothing is lost, nothing comes twice, and soon all flows again.
func TestFaults(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(4**rounds)*patience)
	defer cancel()
	flowing, stop := context.WithCancel(ctx)
	defer stop()
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	var all errgroup.Group
	var flows []*flow
	for agent := range agents {
		p := w.pair(t, ctx, agent)
		p.run(flowing, watching, &all)
		flows = append(flows, p.down, p.up)
	}
	arrived(t, ctx, flows, time.Now().Add(2*time.Second))

	faults := []struct {
		name string
		do   func(*testing.T, context.Context)
	}{
		{"the leader of a stream is killed", func(t *testing.T, ctx context.Context) { w.lose(t, ctx, w.leader(t, ctx, "DOWN_edge-leaf")) }},
		{"the server of an agent is killed", func(t *testing.T, ctx context.Context) { w.lose(t, ctx, int(w.doors[0].at.Load())) }},
		{"a server is drained and restarted", func(t *testing.T, ctx context.Context) { w.drain(t, ctx, w.leader(t, ctx, "UP_edge-client")) }},
		{"the servers are restarted one by one", w.roll},
		{"the principal is killed", func(t *testing.T, ctx context.Context) {
			w.principal.Kill()
			require.NoError(t, w.principal.Start(ctx))
		}},
	}
	silences := map[string][]time.Duration{}
	for i := range len(faults) * *rounds {
		fault := faults[i%len(faults)]
		began := time.Now()
		fault.do(t, ctx)
		over := time.Now()
		for _, f := range flows {
			silence, err := f.again(ctx, began, over)
			require.NoError(t, err, fault.name)
			t.Logf("%s: %s: nothing came for %v", fault.name, f.name, silence.Round(10*time.Millisecond))
			silences[fault.name] = append(silences[fault.name], silence.Round(100*time.Millisecond))
			require.Less(t, silence, patience, "%s: %s", fault.name, f.name)
		}
		arrived(t, ctx, flows, time.Now())
	}
	for name, all := range silences {
		slices.Sort(all)
		t.Logf("%s: nothing came for %v", name, all)
	}

	stop()
	arrived(t, ctx, flows, time.Now().Add(time.Hour))
	for _, f := range flows {
		lost, twice := f.judge()
		require.Empty(t, lost, f.name)
		require.Empty(t, twice, f.name)
		t.Logf("%s: %d, none of them lost, none twice", f.name, f.count())
	}
	unwatch()
	require.NoError(t, all.Wait())
}

// arrived waits until something has come of all flows, and all that was sent before a time has.
func arrived(t *testing.T, ctx context.Context, flows []*flow, before time.Time) {
	require.NoError(t, stack.Poll(ctx, 20*time.Millisecond, func(context.Context) error {
		for _, f := range flows {
			if n := f.missing(before); n > 0 || f.count() == 0 {
				return fmt.Errorf("%s: %d have not come, of %d", f.name, n, f.next())
			}
		}
		return nil
	}))
}

// lose kills a server, and starts it again.
func (w *world) lose(t *testing.T, ctx context.Context, node int) {
	t.Logf("killed is %s", w.nodes[node].Name())
	w.nodes[node].Kill()
	require.NoError(t, w.nodes[node].Start(ctx))
}

// drain restarts a server as the StatefulSet in deploy/nats does, by its preStop.
func (w *world) drain(t *testing.T, ctx context.Context, node int) {
	t.Logf("drained is %s", w.nodes[node].Name())
	require.NoError(t, w.nodes[node].Signal(syscall.SIGUSR2))
	require.NoError(t, w.nodes[node].Wait(ctx))
	require.NoError(t, w.nodes[node].Start(ctx))
}

// roll restarts the servers, in the order of a StatefulSet, without draining them.
func (w *world) roll(t *testing.T, ctx context.Context) {
	for _, node := range slices.Backward(w.nodes) {
		require.NoError(t, node.Restart(ctx))
	}
}

// leader returns which server leads a stream.
func (w *world) leader(t *testing.T, ctx context.Context, stream string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+natsservers.Addr(w.places[0].Monitor)+"/jsz?streams=true", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	var said struct {
		Accounts []struct {
			Streams []struct {
				Name    string `json:"name"`
				Cluster struct {
					Leader string `json:"leader"`
				} `json:"cluster"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&said))
	for _, a := range said.Accounts {
		for _, s := range a.Streams {
			if s.Name == stream {
				node := slices.IndexFunc(w.places, func(p natsservers.Place) bool { return p.Name == s.Cluster.Leader })
				require.GreaterOrEqual(t, node, 0, "%s is led by %q", stream, s.Cluster.Leader)
				return node
			}
		}
	}
	require.Fail(t, "there is no stream "+stream)
	return -1
}
