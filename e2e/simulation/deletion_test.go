package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// cascade is the metadata of an Application that is deleted with all that it deployed.
const cascade = `{"finalizers":["resources-finalizer.argocd.argoproj.io"]}`

func TestScenario09_ACascadeWaitsForAnAgentThatIsAway(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		s.hub().set("x", resource.Spec, number(1))
		s.hub().set("x", resource.Meta, cascade)
		w.agree()
		s.stop()
		s.hub().delete("x")
		time.Sleep(20 * f.tick)
		o, waits := s.hub().get("x")
		require.True(t, waits && o.Deleting, "it waits, as long as it takes")

		s.control.pause()
		s.start()
		w.await(f.patience, "the copy is deleted", func() bool {
			o, ok := s.here().get("x")
			return ok && o.Deleting
		})
		require.True(t, s.hub().has("x"), "until the copy is known to be gone")
		s.stop() // it dies between the deletion and the report
		s.here().Finish(s.here().key("x"))
		s.start()
		w.settle()
		require.Empty(t, w.cluster.All())
		require.Empty(t, s.cluster.All())
	})
}

func TestScenario19_AnAutonomousApplicationDeletedOnTheHub(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Autonomous)
		s := w.spokes[0]
		w.start()
		s.here().set("x", resource.Spec, number(1))
		w.agree()
		s.hub().delete("x")
		w.await(2*time.Second, "it is back with its status", func() bool { return s.hub().n("x", resource.Status) == 1 })
		w.settle()
	})
}

func TestScenario22_AStatusThatRacesADeletion(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		const races = 50
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		s.control.pause()
		name := func(i int) string { return fmt.Sprint("app-", i) }
		w.start()
		for i := range races {
			s.hub().set(name(i), resource.Spec, number(i))
		}
		w.agree()
		for i := range races {
			first, second := s.hub().delete, s.changeStatus
			if i%2 == 0 {
				first, second = second, first
			}
			first(name(i))
			time.Sleep(time.Duration(i%5) * 10 * time.Millisecond)
			second(name(i))
		}
		w.settle()
		require.Empty(t, w.cluster.All())
		require.Empty(t, s.cluster.All())
	})
}

// changeStatus changes the status of a copy that is there.
func (s *spoke) changeStatus(name string) {
	if s.here().has(name) {
		s.here().set(name, resource.Status, number(1000))
	}
}
