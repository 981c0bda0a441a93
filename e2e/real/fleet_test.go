package real

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

const (
	fleetSize = 100
	writers   = 8
)

// fleetName returns the name of the Application that is edited the i-th time.
func fleetName(i int) string { return fmt.Sprintf("fleet-%02d", i%fleetSize) }

// fleetOf returns agent edge-2, for which the hub has a fleet of Applications.
func fleetOf(t *testing.T, w *world) *agent {
	a := w.agent(t, "edge-2")
	if w.fleet {
		return a
	}
	many(t, fleetSize, func(ctx context.Context, i int) error {
		app := application(fleetName(i), spec(a.name, "https://git.example.com/fleet.git", fleetName(i)))
		_, err := a.hub.objects().Create(ctx, app, metav1.CreateOptions{})
		return err
	})
	took := within(t, time.Minute, w.inStep)
	t.Logf("a fleet of %d is in step in %.1f s", fleetSize, took.Seconds())
	w.fleet = true
	return a
}

// many calls f with 0 to n-1 from several writers. The numbers of one Application, see
// fleetName, are one writer's, in their order.
func many(t *testing.T, n int, f func(ctx context.Context, i int) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	for one := range writers {
		group.Go(func() error {
			for i := range n {
				if i%fleetSize%writers != one {
					continue
				}
				if err := f(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}

// numbered makes the status of the i-th edit, from 0 to n-1, on the spoke.
func (a *agent) numbered(t *testing.T, n int) {
	t.Helper()
	many(t, n, func(ctx context.Context, i int) error {
		_, err := a.spoke.merge(ctx, fleetName(i), fields{"status": status(i)})
		return err
	})
}

// latest returns a check that the hub has the status of the last edits of n.
func (a *agent) latest(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		apps, err := a.hub.all(ctx)
		if err != nil {
			return err
		}
		for i := max(0, n-fleetSize); i < n; i++ {
			if err := has(revision(i), "status", "sync", "revision")(apps[fleetName(i)]); err != nil {
				return fmt.Errorf("%s: %w", fleetName(i), err)
			}
		}
		return nil
	}
}

// statusesApart: 200 status changes of 50 Applications while the link is cut. The last of
// each is on the hub within 5 s of its being healed, and never an older one after a newer.
func statusesApart(t *testing.T, w *world) {
	a := fleetOf(t, w)
	a.numbered(t, 1)
	within(t, patience, all(w.inStep, a.latest(1)))
	falls := w.watchFalls(t, a)
	a.line.Set(netfault.Cut)
	for i := range 200 {
		_, err := a.spoke.merge(t.Context(), fmt.Sprintf("fleet-%02d", i%50), fields{"status": status(1000 + i)})
		require.NoError(t, err)
	}
	a.line.Set(netfault.Healthy)
	took := within(t, 5*time.Second, func(ctx context.Context) error {
		apps, err := a.hub.all(ctx)
		for i := 150; err == nil && i < 200; i++ {
			err = has(revision(1000+i), "status", "sync", "revision")(apps[fmt.Sprintf("fleet-%02d", i%50)])
		}
		return err
	})
	t.Logf("all on the hub %.2f s after the link was healed", took.Seconds())
	require.Empty(t, falls(), "an older status came after a newer one")
}

// watchFalls watches the agent's Applications on the hub until what it returns is called,
// which gives the changes by which the number in a status has fallen.
func (w *world) watchFalls(t *testing.T, a *agent) (falls func() []string) {
	ctx, stop := context.WithCancel(t.Context())
	watch, err := a.hub.objects().Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	var out []string
	var running sync.WaitGroup
	running.Go(func() {
		last := map[string]int{}
		for e := range watch.ResultChan() {
			app, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			text, _ := at(app, "status", "sync", "revision").(string)
			n, err := strconv.Atoi(strings.TrimPrefix(text, "revision "))
			if err != nil {
				continue
			}
			if name := app.GetName(); n < last[name] {
				out = append(out, fmt.Sprintf("%s: %d after %d", name, n, last[name]))
			} else {
				last[name] = n
			}
		}
	})
	return func() []string {
		stop()
		watch.Stop()
		running.Wait()
		return out
	}
}

// leafRestarted: while the link is cut 1,000 changes are noted in the agent's leaf, which
// is then killed. What it has noted, the last value of each key, arrives.
func leafRestarted(t *testing.T, w *world) {
	a := fleetOf(t, w)
	within(t, patience, w.inStep)
	a.line.Set(netfault.Cut)
	before, err := a.streams(t.Context())
	require.NoError(t, err)
	const edits = 1000
	a.numbered(t, edits)
	within(t, patience, func(ctx context.Context) error {
		now, err := a.streams(ctx)
		if err == nil && now["OUT_edge-2"] < before["OUT_edge-2"]+fleetSize {
			err = fmt.Errorf("OUT_edge-2 is at %d, and was at %d", now["OUT_edge-2"], before["OUT_edge-2"])
		}
		return err
	})
	time.Sleep(time.Second) // the last ones
	a.Kill()
	require.NoError(t, a.Start(t.Context()))
	require.Error(t, a.latest(edits)(t.Context()))
	a.line.Set(netfault.Healthy)
	within(t, patience, a.latest(edits))
}

// tenThousand: ten thousand edits while the agent is away, half of them on either side,
// arrive as no more messages than there are Applications, in each direction.
func tenThousand(t *testing.T, w *world) {
	const edits = 5000 // on each side
	a := fleetOf(t, w)
	w.silent(t, 0)
	down, up := w.crossed(t, a)
	a.line.Set(netfault.Cut)
	start := time.Now()
	many(t, edits, func(ctx context.Context, i int) error {
		if _, err := a.hub.merge(ctx, fleetName(i), fields{"spec": fields{"source": fields{"targetRevision": revision(i)}}}); err != nil {
			return err
		}
		_, err := a.spoke.merge(ctx, fleetName(i), fields{"status": status(i)})
		return err
	})
	t.Logf("%d edits in %.0f s", 2*edits, time.Since(start).Seconds())
	w.silent(t, 0)

	a.line.Set(netfault.Healthy)
	took := within(t, time.Minute, all(a.latest(edits), w.inStep))
	w.silent(t, 5*time.Second)
	nowDown, nowUp := w.crossed(t, a)
	t.Logf("in step %.1f s after the link was healed; %d messages went down, %d up", took.Seconds(), nowDown-down, nowUp-up)
	// Of these one at least is a manifest: it says that the table is another now.
	require.LessOrEqual(t, nowDown-down-1, uint64(fleetSize))
	require.LessOrEqual(t, nowUp-up-1, uint64(fleetSize))
	require.GreaterOrEqual(t, w.verified(t), fleetSize)
}

// crossed returns how many messages have crossed the link to an agent, as the NATS servers
// count them: each goes into the copy that the reader's server keeps.
func (w *world) crossed(t *testing.T, a *agent) (down, up uint64) {
	spoke, err := a.streams(t.Context())
	require.NoError(t, err)
	hub, err := w.principal.streams(t.Context())
	require.NoError(t, err)
	require.Contains(t, spoke, "IN_"+a.name)
	require.Contains(t, hub, "UP_"+a.name)
	return spoke["IN_"+a.name], hub["UP_"+a.name]
}
