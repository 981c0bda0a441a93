package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

// TestAStoreThatIsLostIsFilledAgain loses each of the four stores of a link while the two
// sides are apart and the originals change, and restarts both programs offline.
func TestAStoreThatIsLostIsFilledAgain(t *testing.T) {
	for _, lost := range []linktest.Store{linktest.HubLog, linktest.AgentCopy, linktest.AgentLog, linktest.HubCopy} {
		for _, mode := range []resource.Mode{resource.Managed, resource.Autonomous} {
			t.Run(fmt.Sprintf("%s/%s", lost, mode), func(t *testing.T) {
				play(t, func(t *testing.T, f fabric) {
					if f.keeps { // elsewhere a store is lost with its process, in most stories
						loseStore(t, f, lost, mode)
					}
				})
			})
		}
	}
}

func loseStore(t *testing.T, f fabric, lost linktest.Store, mode resource.Mode) {
	w := newWorld(t, f, 1, mode)
	s := w.spokes[0]
	w.start()
	populate(s.owner())
	w.agree()
	s.cut()
	s.owner().set("app-1", resource.Spec, number(100))
	s.owner().set("new", resource.Spec, number(1))
	s.owner().delete("app-2")
	time.Sleep(2 * f.tick)

	if !f.wipesStopped {
		w.net.Wipe(t, s.name, lost)
		time.Sleep(2 * f.tick)
	}
	w.stop()
	if f.wipesStopped {
		w.net.Wipe(t, s.name, lost)
	}
	s.other().set("app-3", resource.Spec, `"drift"`)
	w.start()
	if !holdsOriginals(lost, mode) {
		w.await(10*time.Second, "drift is undone offline", func() bool { return s.other().n("app-3", resource.Spec) == 3 })
	}
	require.Len(t, s.other().identities(), 10, "nothing comes or goes while they are apart")

	s.fault(linktest.Healthy)
	w.settle()
	require.Len(t, s.other().identities(), 10)
	require.Equal(t, 100, s.other().n("app-1", resource.Spec))
	require.False(t, s.other().has("app-2"))
	require.Equal(t, 3, s.other().n("app-3", resource.Spec))
}

// populate makes ten Applications.
func populate(c site) {
	for i := range 10 {
		c.set(fmt.Sprint("app-", i), resource.Spec, number(i))
	}
}

// holdsOriginals reports whether a store is the copy of the table of originals, by which
// drift is known.
func holdsOriginals(s linktest.Store, mode resource.Mode) bool {
	if mode == resource.Managed {
		return s == linktest.AgentCopy
	}
	return s == linktest.HubCopy
}

func TestAnEmptyHubDeletesNothing(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		populate(s.hub())
		w.agree()
		before := s.here().identities()
		w.stopHub()
		full := w.cluster
		w.cluster = memstore.New(memstore.Config{Name: "hub"})
		w.startHub()
		w.await(f.patience, "the hub is told what is held", func() bool { return len(s.upper().Engine.Theirs) == 10 })
		time.Sleep(10 * f.tick)
		require.Equal(t, before, s.here().identities())

		w.stopHub()
		w.cluster = full
		w.startHub()
		w.settle()
		require.Equal(t, before, s.here().identities(), "not one was made anew")
		require.Empty(t, s.upper().Engine.Theirs)
	})
}

func TestWhatIsHeldGoesOnceItIsApproved(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		populate(s.hub())
		w.agree()
		w.stopHub()
		for i := range 9 {
			s.hub().delete(fmt.Sprint("app-", i))
		}
		w.startHub()
		w.await(f.patience, "the hub is told what is held", func() bool { return len(s.upper().Engine.Theirs) == 9 })
		require.Len(t, s.here().identities(), 10)
		w.approve()
		w.settle()
		require.Len(t, s.here().identities(), 1)
	})
}

// What a restored hub has forgotten is held for as long as nobody approves it, whoever is
// restarted meanwhile: also over a transport that keeps no log, and although so few are missing
// that they would be taken for removals that were missed.
func TestWhatIsHeldStaysHeldWhoeverIsRestarted(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		populate(s.hub())
		w.agree()
		snapshot := w.cluster.Snapshot()
		s.hub().set("since", resource.Spec, number(1))
		w.settle()
		before := s.here().identities()
		w.stopHub()
		w.cluster.Restore(snapshot)
		w.startHub()
		held := func() bool { return len(s.upper().Engine.Theirs) == 1 }
		w.await(f.patience, "the hub is told what is held", held)
		for range 2 {
			w.stop()
			w.start()
			w.await(f.patience, "the hub is told what is held after a restart", held)
			time.Sleep(5 * f.tick)
			require.Equal(t, before, s.here().identities())
		}
		w.approve()
		w.settle()
		require.Len(t, s.here().identities(), 10)
	})
}

func TestAHubRestoredByManifestsTakesOver(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		populate(s.hub())
		w.agree()
		before := s.here().identities()
		w.stopHub()
		w.cluster = memstore.New(memstore.Config{Name: "restored"})
		populate(s.hub())
		w.startHub()
		w.settle()
		require.Equal(t, before, s.here().identities(), "not one was made anew")
	})
}

func TestScenario13_DeletedWhileTheAgentLostItsMemory(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		s.hub().set("deleted", resource.Spec, number(1))
		s.hub().set("kept", resource.Spec, number(1))
		s.here().set("unmanaged", resource.Spec, number(7))
		w.agree()
		s.stop()
		s.hub().delete("deleted")
		time.Sleep(2 * f.tick)
		if f.keeps {
			w.net.Wipe(t, s.name, linktest.AgentCopy)
			w.net.Wipe(t, s.name, linktest.AgentLog)
		}
		before, _ := s.here().get("unmanaged")
		s.start()
		w.settle()
		require.False(t, s.here().has("deleted"))
		require.True(t, s.here().has("kept"))
		after, _ := s.here().get("unmanaged")
		require.Equal(t, before, after)
	})
}
