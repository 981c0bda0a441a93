package simulation

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

// heal makes everything whole and running again.
func (w *world) heal() {
	for _, s := range w.spokes {
		s.fault(linktest.Healthy)
	}
	w.start()
}

// settle waits until both sides of every link agree and know it, and then for silence.
func (w *world) settle() {
	w.t.Helper()
	w.agree()
	w.silence()
}

// agree waits until both sides of every link agree and know it.
func (w *world) agree() {
	w.t.Helper()
	deadline := time.Now().Add(w.f.patience)
	for _, s := range w.spokes {
		for ; !s.agrees(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				w.t.Fatalf("no agreement within %v:\n%s", w.f.patience, w.explain())
			}
		}
	}
}

// agrees reports whether the two sides are in step, say so, and have the same in their
// stores, read afresh, and nothing is left to do for the controller.
func (s *spoke) agrees() bool {
	hub, agent := s.hub.Status(), s.agent.Status()
	return s.control.done() && hub.Engine.InStep && agent.Engine.InStep && hub.Connected && agent.Connected && len(s.differences()) == 0
}

// differences compares what the two clusters have of the spoke.
func (s *spoke) differences() []verify.Difference {
	scope := backend.Scope{Namespace: s.name}
	hub, err := verify.Read(s.w.t.Context(), s.w.cluster, scope)
	require.NoError(s.w.t, err)
	cluster, err := verify.Read(s.w.t.Context(), s.cluster, scope)
	require.NoError(s.w.t, err)
	return verify.Compare(verify.Options{Mode: s.w.rules.Mode, Hub: hubIdentity, Agent: s.name}, hub, cluster)
}

// silence demands that for a time nothing is said and nothing is written.
func (w *world) silence() {
	w.t.Helper()
	time.Sleep(w.f.quiet) // what is being said at the moment of agreement
	before := w.busy()
	time.Sleep(w.f.quiet)
	require.Equal(w.t, before, w.busy(), "somebody is not silent")
	for _, s := range w.spokes {
		require.Empty(w.t, s.differences())
	}
}

// busy returns how much was done so far, by side.
func (w *world) busy() map[string]int64 {
	n := map[string]int64{}
	for _, s := range w.spokes {
		n["hub of "+s.name], n[s.name] = s.hub.all(), s.agent.all()
	}
	return n
}

// approve has every deletion done that is held back, as an operator does who knows that
// it is right.
func (w *world) approve() {
	for _, s := range w.spokes {
		for _, h := range []*half{&s.hub, &s.agent} {
			if held := h.Status().Engine.Theirs; len(held) > 0 {
				require.NoError(w.t, h.Approve(w.t.Context(), engine.HeldDigest(held)))
			}
		}
	}
}

// explain says in what the world does not agree.
func (w *world) explain() string {
	var b strings.Builder
	for _, s := range w.spokes {
		fmt.Fprintf(&b, "%s\n  hub   %+v\n  agent %+v\n", s.name, s.hub.Status(), s.agent.Status())
		for _, d := range s.differences() {
			fmt.Fprintf(&b, "  %s\n", d)
		}
	}
	return b.String()
}
