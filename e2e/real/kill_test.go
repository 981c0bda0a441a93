package real

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
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
		{"agents-wiped", spared, wiped}, // also of what stories before have made them remember
		{"agents-killed", spared, killed},
		{"principal-killed", killed, spared},
		{"principal-wiped", wiped, spared},
		{"both-killed", killed, killed},
		{"both-wiped", wiped, wiped},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			l := newLife(t, w, c.name)
			fates := map[*program]fate{w.principal: c.principal, l.one.program: c.agent, l.two.program: c.agent}
			l.change(t)
			befall(fates, func(p *program) { p.Kill() }, killed, wiped)
			l.change(t)
			l.order(t)
			befall(fates, func(p *program) { w.wipe(t, p) }, wiped)
			befall(fates, func(p *program) { require.NoError(t, p.Start(t.Context())) }, killed, wiped)
			l.change(t)
			took := within(t, time.Minute, all(l.ended, w.inStep))
			w.silent(t, 0)
			l.unharmed(t, w)
			t.Logf("all is as ordered %.1f s after the start; played in %.1f s", took.Seconds(), time.Since(start).Seconds())
		})
	}
}

// befall does something to each program that has one of some fates.
func befall(fates map[*program]fate, do func(*program), which ...fate) {
	for p, f := range fates {
		if slices.Contains(which, f) {
			do(p)
		}
	}
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
	took := within(t, time.Minute, all(a.spoke.gone("forgotten-seen"), a.spoke.gone("forgotten-unseen")))
	t.Logf("gone %.1f s after the start of the agent", took.Seconds())
	w.silent(t, 0)
	w.unharmed(t, before, order{"forgotten-seen": false, "forgotten-unseen": false})
	a.spoke.remove(t, "local")
}

// halfSynced: the principal is started while the hub's API server answers so slowly, and then
// not at all, that it knows which agents there are and has not seen their Applications when
// they connect. Nobody is told anything until it has, nothing is deleted, and then what has
// happened meanwhile is done.
func halfSynced(t *testing.T, w *world) {
	l := newLife(t, w, "half-synced")
	w.ballast(t)
	w.silent(t, 0)
	w.principal.stop(t)
	w.api.Set(netfault.Slow)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- w.principal.Start(ctx) }()
	within(t, patience, w.principal.admitting)
	w.api.Set(netfault.BlackHole)

	heard, err := l.one.streams(ctx)
	require.NoError(t, err)
	l.change(t)
	l.order(t)
	within(t, patience, l.one.connected)
	time.Sleep(5 * time.Second) // in which it would say what it knows
	require.NoError(t, w.principal.admitting(ctx))
	now, err := l.one.streams(ctx)
	require.NoError(t, err)
	require.Equal(t, heard["IN_"+l.one.name], now["IN_"+l.one.name], "it has said nothing")
	require.NoError(t, all(
		l.one.spoke.is(l.app("orphaned"), healthy), l.one.spoke.is(l.app("cascaded"), healthy), l.one.hub.is(l.app("cascaded"), terminating),
	)(ctx))
	l.unharmed(t, w)

	w.api.Set(netfault.Healthy)
	require.NoError(t, <-started)
	within(t, time.Minute, all(l.ended, w.inStep))
	l.unharmed(t, w)
}

// ballast makes a list of all Applications on the hub take seconds on a slow line, until the
// test is over, by some that are no agent's.
func (w *world) ballast(t *testing.T) {
	const size = 1 << 20 // that of an object is bounded
	random := make([]byte, size*3/4)
	_, err := rand.NewChaCha8([32]byte{}).Read(random) // which cannot be compressed
	require.NoError(t, err)
	require.NoError(t, w.hub.Namespace(t.Context(), "ballast"))
	p := place{w.hub, "ballast", resource.Application}
	for _, name := range []string{"one", "two", "three", "four", "five", "six"} {
		s := spec("nobody", "https://git.example.com/ballast.git", "ballast")
		s["source"].(fields)["helm"] = fields{"values": base64.StdEncoding.EncodeToString(random)}
		p.create(t, application(name, s))
		t.Cleanup(func() { require.NoError(t, p.objects().Delete(context.Background(), name, metav1.DeleteOptions{})) })
	}
}

// admitting checks that the principal knows its agents, and not yet what is theirs.
func (p *program) admitting(ctx context.Context) error {
	err := p.answers(ctx, "/readyz", http.StatusOK)
	if err == nil || !strings.Contains(err.Error(), "is being admitted") {
		return fmt.Errorf("%s is not admitting agents: %w", p.Name(), err)
	}
	return nil
}
