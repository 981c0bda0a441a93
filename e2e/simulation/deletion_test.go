package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

const cascade = `{"finalizers":["resources-finalizer.argocd.argoproj.io"]}`

func TestScenario09_ACascadeWaitsForAnAgentThatIsAway(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		x := s.key("x")
		w.start()
		set(w.cluster, x, resource.Spec, number(1))
		set(w.cluster, x, resource.Meta, cascade)
		w.agree()
		s.stop()
		w.cluster.Delete(x)
		time.Sleep(20 * f.tick)
		o, waits := w.cluster.Get(x)
		require.True(t, waits && o.Deleting, "it waits, as long as it takes")

		s.control.pause()
		s.start()
		w.await(f.patience, "the copy is deleted", func() bool {
			o, ok := s.cluster.Get(x)
			return ok && o.Deleting
		})
		s.stop() // it dies between the deletion and the report
		s.cluster.Finish(x)
		s.start()
		w.settle()
		require.Empty(t, w.cluster.All())
		require.Empty(t, s.cluster.All())
	})
}

func TestScenario19_AnAutonomousApplicationDeletedOnTheHub(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Rules{Mode: resource.Autonomous})
		s := w.spokes[0]
		x := s.key("x")
		w.start()
		set(s.cluster, x, resource.Spec, number(1))
		w.agree()
		w.cluster.Delete(x)
		w.await(2*time.Second, "it is back with its status", func() bool {
			return part(w.cluster, x, resource.Status) == statusOf(number(1))
		})
		w.settle()
	})
}

func TestScenario22_AStatusThatRacesADeletion(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		s.control.pause()
		w.start()
		const races = 50
		name := func(i int) resource.Key { return s.key(fmt.Sprint("app-", i)) }
		for i := range races {
			set(w.cluster, name(i), resource.Spec, number(i))
		}
		w.agree()
		for i := range races {
			deletes := func() { w.cluster.Delete(name(i)) }
			changes := func() {
				if _, there := s.cluster.Get(name(i)); there {
					set(s.cluster, name(i), resource.Status, number(i))
				}
			}
			first, second := deletes, changes
			if i%2 == 0 {
				first, second = changes, deletes
			}
			first()
			time.Sleep(time.Duration(i%5) * 10 * time.Millisecond)
			second()
		}
		w.settle()
		require.Empty(t, w.cluster.All())
		require.Empty(t, s.cluster.All())
	})
}
