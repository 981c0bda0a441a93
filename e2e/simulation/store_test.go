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
// sides are apart and both change, and the reader restarts offline.
func TestAStoreThatIsLostIsFilledAgain(t *testing.T) {
	for _, lost := range []linktest.Store{linktest.HubLog, linktest.AgentCopy, linktest.AgentLog, linktest.HubCopy} {
		for _, mode := range []resource.Mode{resource.Managed, resource.Autonomous} {
			t.Run(fmt.Sprintf("%s/%s", lost, mode), func(t *testing.T) {
				play(t, func(t *testing.T, f fabric) { loseStore(t, f, lost, mode) })
			})
		}
	}
}

func loseStore(t *testing.T, f fabric, lost linktest.Store, mode resource.Mode) {
	if !f.keeps {
		return // there is nothing to lose but with its process, which other stories end
	}
	w := newWorld(t, f, 1, resource.Rules{Mode: mode, Adopt: true})
	s := w.spokes[0]
	w.start()
	for i := range 10 {
		set(s.owner(), s.key(fmt.Sprint("app-", i)), resource.Spec, number(i))
	}
	w.agree()
	s.fault(linktest.Cut)
	w.await(f.patience, "the cut is noticed", func() bool { return !s.hub.Status().Connected && !s.agent.Status().Connected })
	set(s.owner(), s.key("app-1"), resource.Spec, number(100))
	set(s.owner(), s.key("new"), resource.Spec, number(1))
	s.owner().Delete(s.key("app-2"))
	time.Sleep(2 * f.tick)

	restart, start := s.stop, s.start // of the process that keeps what is lost
	if lost == linktest.HubLog || lost == linktest.HubCopy {
		restart, start = w.stopHub, w.startHub
	}
	if f.wipesStopped {
		restart()
	}
	w.net.Wipe(t, s.name, lost)
	start()
	s.stop()
	w.stopHub()
	set(s.other(), s.key("app-3"), resource.Spec, `"drift"`)
	w.start()
	if !wiped(mode, lost) {
		w.await(10*time.Second, "drift is undone offline", func() bool {
			return part(s.other(), s.key("app-3"), resource.Spec) == number(3)
		})
	}
	require.Len(t, s.other().All(), 10, "nothing comes or goes while they are apart")

	s.fault(linktest.Healthy)
	w.settle()
	require.Len(t, s.other().All(), 10)
	require.Equal(t, number(100), part(s.other(), s.key("app-1"), resource.Spec))
	require.NotContains(t, s.other().All(), s.key("app-2"))
}

// wiped reports whether the copy is lost that drift is known by.
func wiped(mode resource.Mode, lost linktest.Store) bool {
	return mode == resource.Managed && lost == linktest.AgentCopy || mode == resource.Autonomous && lost == linktest.HubCopy
}

func TestAnEmptyHubDeletesNothing(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		w.start()
		for i := range 10 {
			set(w.cluster, s.key(fmt.Sprint("app-", i)), resource.Spec, number(i))
		}
		w.agree()
		before := identities(s.cluster)
		w.stopHub()
		full := w.cluster
		w.cluster = memstore.New(memstore.Config{Name: "hub"})
		w.startHub()
		w.await(f.patience, "the hub is told what is held", func() bool { return len(s.hub.Status().Engine.Theirs) == 10 })
		time.Sleep(10 * f.tick)
		require.Equal(t, before, identities(s.cluster))

		w.stopHub()
		w.cluster = full
		w.startHub()
		w.settle()
		require.Equal(t, before, identities(s.cluster), "not one was made anew")
		require.Empty(t, s.hub.Status().Engine.Theirs)
	})
}

func TestAHubRestoredByManifestsTakesOver(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		w.start()
		for i := range 10 {
			set(w.cluster, s.key(fmt.Sprint("app-", i)), resource.Spec, number(i))
		}
		w.agree()
		before := identities(s.cluster)
		w.stopHub()
		w.cluster = memstore.New(memstore.Config{Name: "restored"})
		for i := range 10 {
			set(w.cluster, s.key(fmt.Sprint("app-", i)), resource.Spec, number(i))
		}
		w.startHub()
		w.settle()
		require.Equal(t, before, identities(s.cluster), "not one was made anew")
	})
}

// identities returns the UID of every object.
func identities(c *memstore.Store) map[resource.Key]string {
	out := map[resource.Key]string{}
	for k, o := range c.All() {
		out[k] = o.UID
	}
	return out
}

func TestScenario13_DeletedWhileTheAgentLostItsMemory(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		w.start()
		set(w.cluster, s.key("deleted"), resource.Spec, number(1))
		set(w.cluster, s.key("kept"), resource.Spec, number(1))
		set(s.cluster, s.key("unmanaged"), resource.Spec, number(7))
		w.agree()
		s.stop()
		w.cluster.Delete(s.key("deleted"))
		time.Sleep(2 * f.tick)
		if f.keeps {
			w.net.Wipe(t, s.name, linktest.AgentCopy)
			w.net.Wipe(t, s.name, linktest.AgentLog)
		}
		unmanaged, _ := s.cluster.Get(s.key("unmanaged"))
		s.start()
		w.settle()
		require.NotContains(t, s.cluster.All(), s.key("deleted"))
		require.Contains(t, s.cluster.All(), s.key("kept"))
		after, _ := s.cluster.Get(s.key("unmanaged"))
		require.Equal(t, number(7), after.Parts[resource.Spec])
		require.Equal(t, unmanaged.UID, after.UID)
		require.Zero(t, after.Origin)
	})
}
