package real

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/natslink/monitor"
)

// forced: an Application with Argo CD's finalizer is deleted while its agent is gone for
// good, and an operator ends the waiting by taking the finalizer away. The hub's object is
// gone, and nobody keeps complaining. Should the agent come back after all its copy goes,
// too, by name; what it deployed stays, for nothing that is left asks for a cascade.
func forced(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	repo := w.repo(t, "forced")
	a.hub.create(t, cascading(application("forced", spec(a.name, repo.URL(), "forced"))))
	within(t, time.Minute, all(a.hub.is("forced", healthy), a.spoke.is("forced", has([]any{finalizer}, "metadata", "finalizers"))))
	within(t, patience, w.inStep)
	before := w.census(t)

	a.Kill()
	a.hub.remove(t, "forced")
	within(t, patience, a.hub.is("forced", terminating))
	w.silent(t, 0)
	said := w.principal.lines(t)
	a.hub.patch(t, "forced", fields{"metadata": fields{"finalizers": nil}})
	within(t, patience, a.hub.gone("forced"))
	time.Sleep(30 * time.Second)
	require.LessOrEqual(t, w.principal.lines(t)-said, 3, "the principal keeps complaining")
	require.NoError(t, a.hub.gone("forced")(t.Context()))

	require.NoError(t, a.Start(t.Context()))
	within(t, time.Minute, a.spoke.gone("forced"))
	w.silent(t, 0)
	w.unharmed(t, before, order{"forced": false})
}

// lines returns how many lines the program has logged.
func (p *program) lines(t *testing.T) int {
	t.Helper()
	log, err := os.ReadFile(p.Log())
	require.NoError(t, err)
	return bytes.Count(log, []byte("\n"))
}

// hubAway: the hub is away for a minute, as it might be for an hour. The agents' probes
// stay green all the time, nothing restarts them, and drift is reverted, also after an
// agent was restarted without a hub. What is deleted on the hub meanwhile waits there if it
// is to cascade, and nothing happens on the spoke; when the hub is back both are gone, and
// what was deployed goes with the one, and stays with those that do not cascade.
func hubAway(t *testing.T, w *world) {
	l := newLife(t, w, "hub-away")
	noCascade := l.create(t, "no-cascade", cascading)
	within(t, time.Minute, all(l.one.hub.is(noCascade, healthy), w.inStep))
	l.before = w.census(t)

	since := time.Now()
	w.principal.stop(t)
	l.change(t)
	l.order(t)
	l.gone[noCascade] = false // as argocd app delete --cascade=false does it
	l.one.hub.patch(t, noCascade, fields{"metadata": fields{"finalizers": nil}})
	l.one.hub.remove(t, noCascade)
	waits := all(
		l.one.hub.is(l.app("cascaded"), terminating), l.one.spoke.is(l.app("cascaded"), healthy), deployed(l.one.spoke.Cluster, l.app("cascaded")),
		l.one.hub.gone(noCascade), l.one.spoke.is(noCascade, healthy), l.one.spoke.is(l.app("orphaned"), healthy),
	)
	pid := l.one.PID()
	l.worksAlone(t, since.Add(30*time.Second))
	require.Equal(t, pid, l.one.PID())
	l.one.stop(t)
	require.NoError(t, l.one.Start(t.Context()), "it gets ready without a hub")
	l.worksAlone(t, since.Add(time.Minute))
	require.NoError(t, waits(t.Context()), "the hub waits, and nothing happens on the spoke")

	require.NoError(t, w.principal.Start(t.Context()))
	within(t, time.Minute, func(ctx context.Context) error { // the hub lets go last
		hub, spoke := l.one.hub.gone(l.app("cascaded"))(ctx), all(l.one.spoke.gone(l.app("cascaded")), undeployed(l.one.spoke.Cluster, l.app("cascaded")))(ctx)
		require.False(t, hub == nil && spoke != nil, "the hub has let go before the spoke is done: %v", spoke)
		return hub
	})
	within(t, time.Minute, all(l.ended, l.one.spoke.gone(noCascade), deployed(l.one.spoke.Cluster, noCascade), w.inStep))
	l.unharmed(t, w)
}

// worksAlone expects until a time that an agent runs, is well whenever it is asked, and
// reverts drift.
func (l *life) worksAlone(t *testing.T, until time.Time) {
	t.Helper()
	stop := l.one.probe(t)
	want := at(l.one.spoke.get(t, l.app("kept")), "spec")
	for time.Now().Before(until) {
		l.one.spoke.patch(t, l.app("kept"), fields{"spec": fields{"source": fields{"targetRevision": "vandal"}}})
		within(t, soon, l.one.spoke.is(l.app("kept"), has(want, "spec")))
		time.Sleep(5 * time.Second)
	}
	stop()
	require.True(t, l.one.Running())
}

// probe asks a program again and again, as a kubelet does, how it is, until what it returns
// is called, and expects that it is well all the time.
func (p *program) probe(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	asked := 0
	go func() {
		every := time.NewTicker(200 * time.Millisecond)
		defer every.Stop()
		for {
			for _, path := range []string{"/livez", "/readyz"} {
				err := p.answers(ctx, path, http.StatusOK)
				if ctx.Err() != nil {
					err = nil
				}
				if err != nil || ctx.Err() != nil {
					ended <- err
					return
				}
				asked++
			}
			select {
			case <-every.C:
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		t.Helper()
		cancel()
		require.NoError(t, <-ended)
		t.Logf("%s was well %d times it was asked", p.Name(), asked)
	}
}

// answers checks that a probe of the program has this answer.
func (p *program) answers(ctx context.Context, path string, code int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.health+path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != code {
		err = fmt.Errorf("%s%s: %s: %s", p.Name(), path, answer.Status, text)
	}
	return err
}

// connected checks that a connection of the agent's to the principal is up.
func (a *agent) connected(ctx context.Context) error {
	var found struct {
		Leafs []struct{} `json:"leafs"`
	}
	if err := monitor.Ask(ctx, a.monitor, "/leafz", &found); err != nil {
		return err
	}
	if len(found.Leafs) == 0 {
		return fmt.Errorf("%s is not connected", a.Name())
	}
	return nil
}
