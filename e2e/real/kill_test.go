package real

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/natslink/netfault"
)

// A fate is what befalls a program.
type fate uint8

const (
	spared fate = iota
	killed      // by kill -9
	wiped       // killed, and its store is gone
)

// killedAndWiped: the principal, its agents, or all of them are killed while both sides
// change, and both go on changing until they are started again, with what they had stored
// or without.
func killedAndWiped(t *testing.T, w *world) {
	for _, c := range []struct {
		name             string
		principal, agent fate
	}{
		{"principal-killed", killed, spared},
		{"agents-killed", spared, killed},
		{"principal-wiped", wiped, spared},
		{"agents-wiped", spared, wiped},
		{"both-killed", killed, killed},
		{"both-wiped", wiped, wiped},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			l := newLife(t, w, c.name)
			fates := map[*program]fate{w.principal: c.principal, l.one.program: c.agent, l.two.program: c.agent}
			l.change(t)
			w.befall(t, fates, func(p *program) { p.Kill() }, killed, wiped)
			l.change(t)
			l.order(t)
			w.befall(t, fates, func(p *program) { w.wipe(t, p) }, wiped)
			w.befall(t, fates, func(p *program) { require.NoError(t, p.Start(t.Context())) }, killed, wiped)
			l.change(t)
			took := within(t, patience, all(l.ended, w.inStep))
			w.silent(t, 0)
			l.unharmed(t, w)
			t.Logf("all is as ordered %.1f s after the start; played in %.1f s", took.Seconds(), time.Since(start).Seconds())
		})
	}
}

// befall does something to each program that has one of some fates.
func (w *world) befall(t *testing.T, fates map[*program]fate, do func(*program), which ...fate) {
	t.Helper()
	for p, f := range fates {
		for _, one := range which {
			if f == one {
				do(p)
			}
		}
	}
}

// deletedWithoutPrincipal: what is deleted on the hub while the principal is down waits
// there if it is to cascade, and nothing happens on the spoke; when the principal is back
// both are gone, and what was deployed goes with one and stays with the other.
func deletedWithoutPrincipal(t *testing.T, w *world) {
	l := newLife(t, w, "no-principal")
	noCascade := l.app("no-cascade") // as argocd app delete --cascade=false does it
	repoURL := at(l.one.hub.get(t, l.app("kept")), "spec", "source", "repoURL").(string)
	l.one.hub.create(t, cascading(application(noCascade, spec(l.one.name, repoURL, noCascade))))
	within(t, time.Minute, all(l.one.hub.is(noCascade, healthy), w.inStep))
	l.before = w.census(t)
	l.gone[noCascade] = false

	w.principal.stop(t)
	l.order(t)
	l.one.hub.patch(t, noCascade, fields{"metadata": fields{"finalizers": nil}})
	l.one.hub.remove(t, noCascade)
	time.Sleep(3 * time.Second)
	require.NoError(t, all(
		l.one.hub.is(l.app("cascaded"), terminating), l.one.spoke.is(l.app("cascaded"), healthy),
		l.one.hub.gone(noCascade), l.one.spoke.is(noCascade, healthy), l.one.spoke.is(l.app("orphaned"), healthy),
		deployed(l.one.spoke.Cluster, l.app("cascaded")),
	)(t.Context()), "the hub waits, and nothing happens on the spoke")

	require.NoError(t, w.principal.Start(t.Context()))
	within(t, patience, func(ctx context.Context) error { // the hub lets go last
		hub, spoke := l.one.hub.gone(l.app("cascaded"))(ctx), all(l.one.spoke.gone(l.app("cascaded")), undeployed(l.one.spoke.Cluster, l.app("cascaded")))(ctx)
		require.False(t, hub == nil && spoke != nil, "the hub has let go before the spoke is done: %v", spoke)
		return hub
	})
	within(t, patience, all(l.one.spoke.gone(noCascade), deployed(l.one.spoke.Cluster, noCascade)))
	l.change(t)
	within(t, patience, l.ended)
	l.unharmed(t, w)
}

// deletedAndForgotten: two Applications are deleted on the hub while their agent is off, of
// one of which the principal does not know either that it was deleted: it was down. The
// agent comes back with an empty memory to a populated spoke. Both copies go: one because
// its original is known to be deleted, the other because the hub, all of which is known,
// does not have it, and it is one of few. Applications that are nobody's copies stay.
func deletedAndForgotten(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	repo := w.repo(t, "forgotten")
	names := []string{"forgotten-seen", "forgotten-unseen", "forgotten-not"}
	for _, name := range names {
		a.hub.create(t, application(name, spec(a.name, repo.URL(), name)))
	}
	local := spec(a.name, repo.URL(), "local")
	local["destination"] = fields{"server": "https://kubernetes.default.svc", "namespace": "local"}
	a.spoke.create(t, application("local", local))
	for _, name := range names {
		within(t, time.Minute, a.hub.is(name, healthy))
	}
	within(t, time.Minute, a.spoke.is("local", healthy))
	within(t, patience, w.inStep)
	before := w.census(t)

	a.stop(t)
	a.hub.remove(t, "forgotten-seen")
	w.silent(t, 0)
	w.principal.stop(t)
	a.hub.remove(t, "forgotten-unseen")
	require.NoError(t, w.principal.Start(t.Context()))
	w.wipe(t, a.program)
	require.NoError(t, a.Start(t.Context()))
	took := within(t, patience, all(a.spoke.gone("forgotten-seen"), a.spoke.gone("forgotten-unseen")))
	t.Logf("gone %.1f s after the start of the agent", took.Seconds())
	w.silent(t, 0)
	w.unharmed(t, before, order{"forgotten-seen": false, "forgotten-unseen": false})
	a.spoke.remove(t, "local")
}

// halfSynced: the principal is started while the hub's API server answers so slowly that it
// has not seen the Applications when the agents connect. Nobody is told anything until it
// has, nothing is deleted, and then what has happened meanwhile is done.
func halfSynced(t *testing.T, w *world) {
	l := newLife(t, w, "half-synced")
	w.principal.stop(t)
	l.change(t)
	l.order(t)
	heard, err := l.one.streams(t.Context())
	require.NoError(t, err)

	w.api.Set(netfault.Slow)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- w.principal.Start(ctx) }()
	unready := func(ctx context.Context) error {
		return w.principal.answers(ctx, "/readyz", http.StatusServiceUnavailable)
	}
	within(t, patience, unready)
	w.api.Set(netfault.BlackHole)
	time.Sleep(10 * time.Second) // in which the agents connect, if they are let
	require.NoError(t, unready(ctx), "it does not serve anybody yet")
	now, err := l.one.streams(ctx)
	require.NoError(t, err)
	require.Equal(t, heard["IN_"+l.one.name], now["IN_"+l.one.name], "it has said nothing")
	require.NoError(t, all(
		l.one.spoke.is(l.app("orphaned"), healthy), l.one.spoke.is(l.app("cascaded"), healthy), l.one.hub.is(l.app("cascaded"), terminating),
	)(ctx))
	l.unharmed(t, w)

	w.api.Set(netfault.Healthy)
	require.NoError(t, <-started)
	within(t, patience, all(l.ended, w.inStep))
	l.unharmed(t, w)
}
