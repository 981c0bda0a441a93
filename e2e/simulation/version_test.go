package simulation

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// newest is the N of these stories.
const newest = 4

// speaking is what a program speaks whose newest version is n.
func speaking(n int) wire.Range { return wire.Range{Oldest: max(1, n-2), Newest: n} }

// TestScenario12_ProgramsOfOtherVersions: a hub has agents of one version before its own, of
// its own, of one after, and of three before, which it had understood before that went back. It
// works with all but the last, which is as it was when it was understood last, and told what to
// do. An event of a type that one agent does not know is its dead letter. Then the refused
// agent is upgraded, the others go on, and the hub itself goes back by one.
func TestScenario12_ProgramsOfOtherVersions(t *testing.T) {
	playOnEach(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 4, resource.Managed)
		older, old := w.spokes[0], w.spokes[3]
		w.speaks[hub] = speaking(newest)
		for i, n := range []int{newest - 1, newest, newest + 1, newest} {
			w.speaks[w.spokes[i].name] = speaking(n)
		}
		w.start()
		w.publish(0)
		w.agree()

		old.restart(newest - 3)
		require.NoError(t, older.up.send(t.Context(), unheardOf("Application//poison", newest-1)))
		w.refused(old, "upgrade "+old.name, "upgrade this side, "+old.name)
		w.publish(1)
		old.here().set("kept", resource.Status, number(7))
		w.await(f.patience, "the others agree", func() bool {
			return !slices.ContainsFunc(w.spokes[:3], func(s *spoke) bool { return !s.agrees() })
		})
		w.await(f.patience, "the unknown type is a dead letter", func() bool { return older.lower().DeadLetters == 1 })
		w.hush()
		require.Equal(t, 0, old.here().n("kept", resource.Spec), "nothing is written")
		require.True(t, old.here().has("goes-0"), "nothing is removed")
		require.False(t, old.here().has("goes-1"))
		require.Equal(t, 1, older.lower().DeadLetters)
		require.Zero(t, old.lower().DeadLetters+old.upper().DeadLetters)

		process := old.lower().Peer.Process
		old.restart(newest)
		w.agree()
		require.Equal(t, process, old.lower().Peer.Process, "the hub was not restarted for that")
		require.NoError(t, old.upper().Err)
		w.readable()

		w.stopHub()
		w.speaks[hub] = speaking(newest - 1)
		w.startHub()
		w.publish(2)
		w.agree()
		w.hush()
		w.readable()
	})
}

// publish has every agent have one Application changed, one made and one removed.
func (w *world) publish(n int) {
	for _, s := range w.spokes {
		s.hub().set("kept", resource.Spec, number(n))
		s.hub().set(fmt.Sprint("goes-", n), resource.Spec, number(n))
		if n > 0 {
			s.hub().delete(fmt.Sprint("goes-", n-1))
		}
	}
}

// restart has the agent be a program whose newest version is n.
func (s *spoke) restart(n int) {
	s.stop()
	s.w.speaks[s.name] = speaking(n)
	s.start()
}

// refused waits until both sides have been told what to do.
func (w *world) refused(s *spoke, above, below string) {
	w.t.Helper()
	w.await(w.f.patience, "the agent is refused on both sides", func() bool {
		return s.upper().Refusal != nil && s.lower().Refusal != nil
	})
	require.ErrorIs(w.t, s.upper().Err, transport.ErrVersion)
	require.ErrorContains(w.t, s.upper().Err, above)
	require.ErrorContains(w.t, s.lower().Err, below)
}

// readable demands that no log which keeps anything holds what its reader does not read, but
// for answers to what was asked before.
func (w *world) readable() {
	w.t.Helper()
	for _, s := range w.spokes {
		common, ok := w.speaks.of(hub).With(w.speaks.of(s.name))
		require.True(w.t, ok)
		for _, p := range []*tap{&s.up, &s.down} {
			log, err := p.link.Log(w.t.Context())
			require.NoError(w.t, err)
			require.Equal(w.t, w.f.keeps, len(log.Rows) > 0)
			delete(log.Rows, wire.Name(engine.SumsKey))
			for name, row := range log.Rows {
				v, ok := wire.VersionOf(row)
				require.True(w.t, ok && common.Has(v), "%s of %s is of version %d", name, s.name, v)
			}
		}
	}
}
