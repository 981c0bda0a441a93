package simulation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

func TestScenario06_AnOperationAskedForWhileApart(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		const operation = `{"sync":{"revision":"the one"}}`
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		s.hub().set("x", resource.Spec, number(0))
		w.agree()
		s.cut()
		s.hub().set("x", resource.Operation, operation)
		for i := range 5 {
			time.Sleep(f.tick)
			s.hub().set("x", resource.Spec, number(i+1))
		}
		require.Equal(t, operation, s.hub().part("x", resource.Operation), "it stays as long as it is not done")
		s.fault(linktest.Healthy)
		w.settle()
		s.cut()
		s.fault(linktest.Healthy)
		w.settle()

		require.Empty(t, s.hub().part("x", resource.Operation))
		require.Equal(t, finished(operation), s.hub().part("x", resource.OpState))
		copied, _ := s.here().get("x")
		require.Equal(t, map[string]int{copied.UID + " " + operation: 1}, s.control.counts())
		require.Equal(t, 5, s.here().n("x", resource.Spec))
	})
}

func TestAnOperationSurvivesAPrincipalThatDiesAllTheTime(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		const times = 5
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		s.hub().set("x", resource.Spec, number(0))
		w.agree()
		for i := range times {
			s.hub().set("x", resource.Operation, fmt.Sprintf(`{"sync":{"revision":"%d"}}`, i))
			time.Sleep(time.Duration(i) * time.Millisecond)
			w.stopHub()
			w.startHub()
			w.await(f.patience, "it has run", func() bool { return s.hub().part("x", resource.Operation) == "" })
		}
		w.settle()
		runs := s.control.counts()
		require.Len(t, runs, times)
		for what, n := range runs {
			require.Equal(t, 1, n, what)
		}
	})
}

// playBoth tells a story on every fabric and in both modes, with one Application x in step.
func playBoth(t *testing.T, story func(*testing.T, fabric, *world, *spoke)) {
	play(t, func(t *testing.T, f fabric) {
		for _, mode := range []resource.Mode{resource.Managed, resource.Autonomous} {
			w := newWorld(t, f, 1, mode)
			s := w.spokes[0]
			w.start()
			s.owner().set("x", resource.Spec, number(0))
			w.agree()
			story(t, f, w, s)
			w.stop()
		}
	})
}

// terminate asks at the hub as argocd does.
func (s *spoke) terminate(name string) {
	c := s.hub()
	c.Edit(c.key(name), func(o *resource.Object) {
		o.Parts[resource.OpState] = resource.Terminating(o.Parts[resource.OpState], o.Parts[resource.Operation], time.Now())
	})
}

func TestAnOperationIsTerminated(t *testing.T) {
	const operation = `{"sync":{"revision":"the one"}}`
	playBoth(t, func(t *testing.T, f fabric, w *world, s *spoke) {
		failed := func(why string) func() bool {
			return func() bool {
				state := s.hub().part("x", resource.OpState)
				return s.hub().part("x", resource.Operation) == "" && resource.OperationFinished(state) && strings.Contains(state, why)
			}
		}
		s.control.pause()
		s.hub().set("x", resource.Operation, operation)
		w.await(f.patience, "the agent has taken it", func() bool { return s.here().part("x", resource.Operation) == operation })
		w.await(f.patience, "the hub knows", func() bool {
			return s.hub().part("x", resource.OpID) != "" && s.hub().part("x", resource.OpState) != ""
		})
		s.terminate("x")
		w.await(f.patience, "the agent has been told", func() bool { return resource.OperationTerminating(s.here().part("x", resource.OpState)) })
		s.control.resume()
		w.await(f.patience, "it has ended", failed("Operation terminated"))
		w.agree()

		s.cut()
		s.hub().set("x", resource.Operation, operation)
		w.await(f.patience, "it waits", func() bool { return resource.OperationPending(s.hub().part("x", resource.OpState), s.name) })
		s.terminate("x")
		w.await(f.patience, "it is withdrawn", failed("nothing was run"))
		s.stop()
		w.stopHub()
		w.heal()
		w.settle()
		require.True(t, failed("nothing was run")())
		require.Empty(t, s.control.counts())
	})
}

func TestARefreshIsAskedFor(t *testing.T) {
	playBoth(t, func(t *testing.T, f fabric, w *world, s *spoke) {
		unmarked := func() bool { return s.hub().part("x", resource.RefreshMark) == "" }
		s.hub().set("x", resource.RefreshMark, resource.RefreshHard)
		w.await(f.patience, "it is refreshed", unmarked)
		require.Equal(t, map[string]int{"x hard": 1}, s.control.refreshes())
		w.agree()

		s.stop()
		for _, mark := range []string{resource.RefreshNormal, resource.RefreshNormal, resource.RefreshHard} {
			s.hub().set("x", resource.RefreshMark, mark)
			w.await(f.patience, "nobody waits for it", unmarked)
			require.NotEmpty(t, s.hub().part("x", resource.Pending))
		}
		w.stopHub()
		s.start()
		w.startHub()
		w.settle()
		require.Equal(t, map[string]int{"x hard": 2}, s.control.refreshes())
		require.Empty(t, s.hub().part("x", resource.Pending))
	})
}
