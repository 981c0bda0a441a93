package simulation

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

func TestScenario01_StatusesOfATimeApart(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		const apps, changes = 50, 200
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		s.control.pause()
		name := func(i int) string { return fmt.Sprint("app-", i%apps) }
		w.start()
		for i := range apps {
			s.hub().set(name(i), resource.Spec, number(i))
		}
		w.agree()
		var falls atomic.Int64
		last := map[resource.Key]int{}
		w.watch(w.cluster, func(o resource.Object) {
			n := numberIn(o.Parts[resource.Status])
			if n < last[o.Key] && n >= 0 {
				falls.Add(1)
			}
			last[o.Key] = n
		})

		s.cut()
		for i := range changes {
			s.here().set(name(i), resource.Status, number(i))
			time.Sleep(f.tick / 50)
		}
		time.Sleep(10 * f.tick)
		s.fault(linktest.Healthy)
		w.await(5*time.Second, "every latest status is on the hub", func() bool {
			for i := changes - apps; i < changes; i++ {
				if s.hub().n(name(i), resource.Status) != i {
					return false
				}
			}
			return true
		})
		w.settle()
		require.Zero(t, falls.Load(), "an older status came after a newer one")
	})
}

func TestScenario02_ChangesWhileTheAgentIsAway(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		for _, name := range []string{"updated", "deleted", "deleted-unseen", "cascaded", "same"} {
			s.hub().set(name, resource.Spec, number(1))
		}
		s.hub().set("cascaded", resource.Meta, cascade)
		w.agree()

		s.stop()
		s.control.pause() // whose writes would be counted if they made ours conflict
		s.down.reset()
		s.hub().set("updated", resource.Spec, number(2))
		s.hub().set("created", resource.Spec, number(1))
		s.hub().delete("deleted")
		s.hub().delete("cascaded")
		time.Sleep(2 * f.tick)
		w.stopHub()
		s.hub().delete("deleted-unseen")
		time.Sleep(2 * f.tick)
		w.startHub()
		time.Sleep(2 * f.tick)
		o, waits := s.hub().get("cascaded")
		require.True(t, waits && o.Deleting, "it waits for the agent")

		s.start()
		w.await(f.patience, "everything is caught up with", func() bool {
			here := s.here()
			cascaded, there := here.get("cascaded")
			return here.n("updated", resource.Spec) == 2 && here.n("created", resource.Spec) == 1 &&
				!here.has("deleted") && !here.has("deleted-unseen") && there && cascaded.Deleting
		})
		s.control.resume()
		w.settle()
		require.False(t, s.hub().has("cascaded"))
		require.Equal(t, map[string]int{"updated": 1, "created": 1, "deleted": 1, "deleted-unseen": 1, "cascaded": 1},
			s.down.written(), "one write each, and none of what is the same")
	})
}

func TestScenario03_ANamesakeMadeWhileThePrincipalIsDown(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		s.hub().set("x", resource.Spec, number(1))
		s.hub().set("other", resource.Spec, number(1))
		w.agree()
		before, _ := s.here().get("x")

		w.stopHub()
		s.hub().delete("x")
		s.hub().set("x", resource.Spec, number(2))
		w.startHub()
		w.settle()
		original, _ := s.hub().get("x")
		after, _ := s.here().get("x")
		require.Equal(t, 2, s.here().n("x", resource.Spec))
		require.Equal(t, original.UID, after.Origin.UID)
		require.Equal(t, before.UID, after.UID, "nobody saw the deletion: it is taken over in place")
		require.Equal(t, 2, s.hub().n("x", resource.Status))
	})
}

func TestScenario03_ANamesakeMadeWhileTheAgentIsAway(t *testing.T) {
	for _, policy := range []string{"recreate", "upsert"} {
		t.Run(policy, func(t *testing.T) {
			play(t, func(t *testing.T, f fabric) {
				w := newWorld(t, f, 1, resource.Managed)
				s := w.spokes[0]
				w.start()
				s.hub().set("x", resource.Spec, number(1))
				w.agree()
				before, _ := s.here().get("x")
				s.stop()
				s.hub().delete("x")
				time.Sleep(2 * f.tick)
				s.hub().Edit(s.hub().key("x"), func(o *resource.Object) {
					o.Parts[resource.Spec] = number(2)
					o.Parts[resource.Meta] = `{"annotations":{"` + resource.MismatchAnnotation + `":"` + policy + `"}}`
				})
				time.Sleep(2 * f.tick) // the deletion alone never reaches the agent
				var stale atomic.Int64
				w.watch(w.cluster, func(o resource.Object) {
					if numberIn(o.Parts[resource.Status]) == 1 {
						stale.Add(1)
					}
				})
				s.start()
				w.settle()
				original, _ := s.hub().get("x")
				after, _ := s.here().get("x")
				require.Equal(t, 2, s.here().n("x", resource.Spec))
				require.Equal(t, original.UID, after.Origin.UID)
				require.Equal(t, policy == "upsert", before.UID == after.UID)
				if policy == "recreate" {
					require.Zero(t, stale.Load(), "the status of the old object was shown on the new one")
				}
			})
		})
	}
}

func TestScenario14_AnAgentThatNeverWasThere(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.startHub()
		s.hub().set("early", resource.Spec, number(1))
		time.Sleep(10 * f.tick)
		w.stopHub()
		s.hub().set("late", resource.Spec, number(2))
		w.startHub()
		time.Sleep(10 * f.tick)
		s.start()
		w.await(10*time.Second, "both are delivered", func() bool {
			return s.here().n("early", resource.Spec) == 1 && s.here().n("late", resource.Spec) == 2
		})
		w.settle()
	})
}

func TestScenario21_AMessageThatIsNeverAcked(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		var offered atomic.Int64
		s.down.swallow = func(m transport.Message) bool {
			return m.Key == "Application//lost" && offered.Add(1) == 1
		}
		w.start()
		s.hub().set("kept", resource.Spec, number(1))
		s.hub().set("lost", resource.Spec, number(1))
		w.await(time.Minute, "it is offered again", func() bool { return s.here().n("lost", resource.Spec) == 1 })
		w.settle()
		require.GreaterOrEqual(t, offered.Load(), int64(2))
	})
}

func TestScenario27_LabelsAndAnnotationsOfATimeApart(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		for _, name := range []string{"label", "annotation", "less"} {
			s.hub().set(name, resource.Spec, number(1))
			s.hub().set(name, resource.Meta, `{"labels":{"team":"a"},"annotations":{"note":"x"}}`)
		}
		w.agree()
		s.cut()
		s.hub().set("label", resource.Meta, `{"labels":{"new":"1","team":"b"},"annotations":{"note":"x"}}`)
		s.hub().set("annotation", resource.Meta, `{"labels":{"team":"a"},"annotations":{"note":"y"}}`)
		s.hub().set("less", resource.Meta, `{"labels":{"team":"a"}}`)
		s.here().set("less", resource.Meta, `{"labels":{"team":"a"},"annotations":{"local":"stays","note":"x"}}`)
		time.Sleep(10 * f.tick)
		s.fault(linktest.Healthy)
		w.settle()
		require.Equal(t, `{"labels":{"new":"1","team":"b"},"annotations":{"note":"x"}}`, s.here().part("label", resource.Meta))
		require.Equal(t, `{"labels":{"team":"a"},"annotations":{"note":"y"}}`, s.here().part("annotation", resource.Meta))
		require.Equal(t, `{"labels":{"team":"a"},"annotations":{"local":"stays"}}`, s.here().part("less", resource.Meta))
	})
}

func TestTenThousandEditsWhileAwayAreAHundredMessages(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		const apps, edits = 100, 10_000
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		s.control.pause()
		name := func(i int) string { return fmt.Sprint("app-", i%apps) }
		w.start()
		for i := range apps {
			s.hub().set(name(i), resource.Spec, number(0))
		}
		w.agree()
		for i := range apps {
			s.here().set(name(i), resource.Status, number(0))
		}
		w.settle() // nothing, not even a word that nothing is asked for any more, is on its way
		s.up.reset()
		s.down.reset()
		s.cut()
		for i := range edits {
			s.hub().set(name(i), resource.Spec, number(i))
			s.here().set(name(i), resource.Status, number(i))
			if i%apps == 0 {
				time.Sleep(f.tick / 10)
			}
		}
		time.Sleep(2 * f.tick)
		require.Zero(t, s.up.heard.Load()+s.down.heard.Load())
		s.fault(linktest.Healthy)
		w.settle()
		require.LessOrEqual(t, s.down.states.Load(), int64(apps))
		require.LessOrEqual(t, s.up.states.Load(), int64(apps))
		require.Equal(t, edits-1, s.here().n(name(edits-1), resource.Spec))
		require.Equal(t, edits-1, s.hub().n(name(edits-1), resource.Status))
	})
}
