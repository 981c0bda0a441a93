package simulation

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

var managed = resource.Rules{Mode: resource.Managed, Adopt: true}

// set edits one part of an object.
func set(c *memstore.Store, k resource.Key, p resource.Part, text string) {
	c.Edit(k, func(o *resource.Object) { o.Parts[p] = text })
}

func part(c *memstore.Store, k resource.Key, p resource.Part) string {
	o, _ := c.Get(k)
	return o.Parts[p]
}

// number is a spec or status that holds n.
func number(n int) string { return `{"n":` + strconv.Itoa(n) + `}` }

func TestScenario01_StatusesOfATimeApart(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		const apps, changes = 50, 200
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		s.control.pause()
		name := func(i int) resource.Key { return s.key(fmt.Sprint("app-", i%apps)) }
		w.start()
		for i := range apps {
			set(w.cluster, name(i), resource.Spec, number(i))
		}
		w.agree()
		backwards := watchForSteps(t, w.cluster)

		s.fault(linktest.Cut)
		for i := range changes {
			set(s.cluster, name(i), resource.Status, number(i))
			time.Sleep(f.tick / 50)
		}
		time.Sleep(10 * f.tick)
		s.fault(linktest.Healthy)
		w.await(5*time.Second, "every latest status is on the hub", func() bool {
			for i := changes - apps; i < changes; i++ {
				if part(w.cluster, name(i), resource.Status) != number(i) {
					return false
				}
			}
			return true
		})
		w.settle()
		require.Zero(t, backwards.Load(), "an older status came after a newer one")
	})
}

// watchForSteps counts how often the number in a status of the store falls.
func watchForSteps(t *testing.T, c *memstore.Store) *atomic.Int64 {
	var falls atomic.Int64
	last := map[resource.Key]int{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		c.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
			if e.Put == nil {
				return nil
			}
			var n int
			if _, err := fmt.Sscanf(e.Put.Parts[resource.Status], `{"n":%d}`, &n); err == nil {
				if n < last[e.Put.Key] {
					falls.Add(1)
				}
				last[e.Put.Key] = n
			}
			return nil
		})
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return &falls
}

func TestScenario02_ChangesWhileTheAgentIsAway(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		w.start()
		for _, name := range []string{"updated", "deleted", "deleted-unseen", "cascaded", "same"} {
			set(w.cluster, s.key(name), resource.Spec, number(1))
		}
		set(w.cluster, s.key("cascaded"), resource.Meta, `{"finalizers":["resources-finalizer.argocd.argoproj.io"]}`)
		w.agree()

		s.stop()
		s.control.pause() // whose writes would be counted if they made ours conflict
		s.agent.reset()
		set(w.cluster, s.key("updated"), resource.Spec, number(2))
		set(w.cluster, s.key("created"), resource.Spec, number(1))
		w.cluster.Delete(s.key("deleted"))
		w.cluster.Delete(s.key("cascaded"))
		time.Sleep(2 * f.tick)
		w.stopHub()
		w.cluster.Delete(s.key("deleted-unseen"))
		time.Sleep(2 * f.tick)
		w.startHub()
		time.Sleep(2 * f.tick)
		o, waits := w.cluster.Get(s.key("cascaded"))
		require.True(t, waits && o.Deleting, "it waits for the agent")

		s.start()
		w.await(f.patience, "everything is caught up with", func() bool {
			cascaded, there := s.cluster.Get(s.key("cascaded"))
			all := s.cluster.All()
			_, deleted := all[s.key("deleted")]
			_, unseen := all[s.key("deleted-unseen")]
			return part(s.cluster, s.key("updated"), resource.Spec) == number(2) &&
				part(s.cluster, s.key("created"), resource.Spec) == number(1) &&
				!deleted && !unseen && there && cascaded.Deleting
		})
		s.cluster.Finish(s.key("cascaded"))
		s.control.resume()
		w.settle()
		require.NotContains(t, w.cluster.All(), s.key("cascaded"))
		require.Equal(t, map[resource.Key]int{
			s.key("updated"): 1, s.key("created"): 1, s.key("deleted"): 1, s.key("deleted-unseen"): 1, s.key("cascaded"): 1,
		}, s.agent.written(), "one write each, and none of what is the same")
	})
}

func TestScenario03_ANamesakeMadeWhileThePrincipalIsDown(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		x, other := s.key("x"), s.key("other")
		w.start()
		set(w.cluster, x, resource.Spec, number(1))
		set(w.cluster, other, resource.Spec, number(1))
		w.agree()
		before, _ := s.cluster.Get(x)

		w.stopHub()
		w.cluster.Delete(x)
		set(w.cluster, x, resource.Spec, number(2))
		w.startHub()
		w.settle()
		original, _ := w.cluster.Get(x)
		after, _ := s.cluster.Get(x)
		require.Equal(t, number(2), after.Parts[resource.Spec])
		require.Equal(t, original.UID, after.Origin.UID)
		require.Equal(t, before.UID, after.UID, "nobody saw the deletion: it is taken over in place")
		require.Equal(t, statusOf(number(2)), original.Parts[resource.Status])
	})
}

func TestScenario03_ANamesakeMadeWhileTheAgentIsAway(t *testing.T) {
	for _, policy := range []string{"recreate", "upsert"} {
		t.Run(policy, func(t *testing.T) {
			play(t, func(t *testing.T, f fabric) {
				w := newWorld(t, f, 1, managed)
				s := w.spokes[0]
				x := s.key("x")
				w.start()
				set(w.cluster, x, resource.Spec, number(1))
				w.agree()
				before, _ := s.cluster.Get(x)
				s.stop()
				w.cluster.Delete(x)
				time.Sleep(2 * f.tick)
				w.cluster.Edit(x, func(o *resource.Object) {
					o.Parts[resource.Spec] = number(2)
					o.Parts[resource.Meta] = `{"annotations":{"` + resource.MismatchAnnotation + `":"` + policy + `"}}`
				})
				time.Sleep(2 * f.tick) // the deletion alone never reaches the agent
				stale := watchFor(t, w.cluster, func(o resource.Object) bool { return o.Parts[resource.Status] == statusOf(number(1)) })
				s.start()
				w.settle()
				original, _ := w.cluster.Get(x)
				after, _ := s.cluster.Get(x)
				require.Equal(t, number(2), after.Parts[resource.Spec])
				require.Equal(t, original.UID, after.Origin.UID)
				require.Equal(t, policy == "upsert", before.UID == after.UID)
				if policy == "recreate" {
					require.Zero(t, stale.Load(), "the status of the old object was shown on the new one")
				}
			})
		})
	}
}

// watchFor counts the objects of the store that are so, from now on.
func watchFor(t *testing.T, c *memstore.Store, so func(resource.Object) bool) *atomic.Int64 {
	var n atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		c.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
			if e.Put != nil && so(*e.Put) {
				n.Add(1)
			}
			return nil
		})
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return &n
}

func TestScenario14_AnAgentThatNeverWasThere(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		w.startHub()
		set(w.cluster, s.key("early"), resource.Spec, number(1))
		time.Sleep(10 * f.tick)
		w.stopHub()
		set(w.cluster, s.key("late"), resource.Spec, number(2))
		w.startHub()
		time.Sleep(10 * f.tick)
		s.start()
		w.await(10*time.Second, "both are delivered", func() bool {
			return part(s.cluster, s.key("early"), resource.Spec) == number(1) && part(s.cluster, s.key("late"), resource.Spec) == number(2)
		})
		w.settle()
	})
}

func TestScenario21_AMessageThatIsNeverAcked(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		var swallowed atomic.Int64
		s.agent.swallow = func(m transport.Message) bool {
			return m.Key == "Application/agent-0/lost" && swallowed.Add(1) == 1
		}
		w.start()
		set(w.cluster, s.key("kept"), resource.Spec, number(1))
		set(w.cluster, s.key("lost"), resource.Spec, number(1))
		w.await(time.Minute, "it is offered again", func() bool {
			return part(s.cluster, s.key("lost"), resource.Spec) == number(1)
		})
		w.settle()
		require.GreaterOrEqual(t, swallowed.Load(), int64(2))
	})
}

func TestScenario27_LabelsAndAnnotationsOfATimeApart(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		label, note, less := s.key("label"), s.key("annotation"), s.key("less")
		w.start()
		for _, k := range []resource.Key{label, note, less} {
			set(w.cluster, k, resource.Spec, number(1))
			set(w.cluster, k, resource.Meta, `{"labels":{"team":"a"},"annotations":{"note":"x"}}`)
		}
		w.agree()
		s.fault(linktest.Cut)
		set(w.cluster, label, resource.Meta, `{"labels":{"team":"b","new":"1"},"annotations":{"note":"x"}}`)
		set(w.cluster, note, resource.Meta, `{"labels":{"team":"a"},"annotations":{"note":"y"}}`)
		set(w.cluster, less, resource.Meta, `{"labels":{"team":"a"}}`)
		s.cluster.Edit(less, func(o *resource.Object) {
			m := resource.ParseMetadata(o.Parts[resource.Meta])
			m.Annotations["local"] = "stays"
			o.Parts[resource.Meta] = m.Text()
		})
		time.Sleep(10 * f.tick)
		s.fault(linktest.Healthy)
		w.settle()
		require.Equal(t, `{"labels":{"new":"1","team":"b"},"annotations":{"note":"x"}}`, part(s.cluster, label, resource.Meta))
		require.Equal(t, `{"labels":{"team":"a"},"annotations":{"note":"y"}}`, part(s.cluster, note, resource.Meta))
		require.Equal(t, `{"labels":{"team":"a"},"annotations":{"local":"stays"}}`, part(s.cluster, less, resource.Meta))
	})
}

func TestTenThousandEditsWhileAwayAreAHundredMessages(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		const apps, edits = 100, 10_000
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		s.control.pause()
		name := func(i int) resource.Key { return s.key(fmt.Sprint("app-", i%apps)) }
		w.start()
		for i := range apps {
			set(w.cluster, name(i), resource.Spec, number(0))
			set(w.cluster, name(i), resource.Status, number(0))
		}
		w.agree()
		s.hub.reset()
		s.agent.reset()
		s.fault(linktest.Cut)
		w.await(f.patience, "the cut is noticed", func() bool { return !s.hub.Status().Connected && !s.agent.Status().Connected })
		for i := range edits {
			set(w.cluster, name(i), resource.Spec, number(i))
			set(s.cluster, name(i), resource.Status, number(i))
			if i%apps == 0 {
				time.Sleep(f.tick / 10)
			}
		}
		time.Sleep(2 * f.tick)
		require.Zero(t, s.hub.heard.Load()+s.agent.heard.Load())
		s.fault(linktest.Healthy)
		w.settle()
		require.LessOrEqual(t, s.agent.states.Load(), int64(apps))
		require.LessOrEqual(t, s.hub.states.Load(), int64(apps))
		require.Equal(t, number(edits-1), part(s.cluster, name(edits-1), resource.Spec))
		require.Equal(t, number(edits-1), part(w.cluster, name(edits-1), resource.Status))
	})
}
