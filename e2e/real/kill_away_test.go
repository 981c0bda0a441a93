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
	within(t, patience, a.spoke.gone("forced"))
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
// agent was restarted without a hub.
func hubAway(t *testing.T, w *world) {
	const minute = time.Minute
	l := newLife(t, w, "hub-away")
	since := time.Now()
	w.principal.stop(t)
	stop := l.one.probe(t)
	pid := l.one.PID()
	want := at(l.one.spoke.get(t, l.app("kept")), "spec")
	reverted := func() {
		t.Helper()
		l.one.spoke.patch(t, l.app("kept"), fields{"spec": fields{"source": fields{"targetRevision": "vandal"}}})
		within(t, soon, l.one.spoke.is(l.app("kept"), has(want, "spec")))
	}
	l.change(t)
	l.order(t)
	for time.Since(since) < minute/2 {
		reverted()
		time.Sleep(5 * time.Second)
	}
	require.Equal(t, pid, l.one.PID())
	require.True(t, l.one.Running())
	stop()

	l.one.stop(t)
	require.NoError(t, l.one.Start(t.Context()), "it gets ready without a hub")
	stop = l.one.probe(t)
	for time.Since(since) < minute {
		reverted()
		time.Sleep(5 * time.Second)
	}
	stop()
	l.unharmed(t, w)
	require.NoError(t, w.principal.Start(t.Context()))
	within(t, patience, all(l.ended, w.inStep))
	l.unharmed(t, w)
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
