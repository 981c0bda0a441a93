package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

func TestScenario05_APrincipalThatRestartsAllTheTime(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Autonomous)
		s := w.spokes[0]
		w.start()
		populate(s.here())
		w.agree()
		before := map[string]resource.Object{}
		for name := range s.hub().identities() {
			before[name], _ = s.hub().get(name)
		}
		for i := range 10 {
			if i == 5 {
				s.stop()
			}
			w.stopHub()
			w.startHub()
			time.Sleep(f.tick)
		}
		s.start()
		w.settle()
		for name, o := range before {
			now, _ := s.hub().get(name)
			require.Equal(t, o, now, "its version is the same, so it was not even touched")
		}
	})
}

func TestScenario11_AnAnnotationOfTheHubsOwn(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Autonomous)
		s := w.spokes[0]
		w.start()
		s.here().set("x", resource.Spec, number(0))
		s.here().set("x", resource.Meta, `{"annotations":{"rev":"0"}}`)
		w.agree()
		s.hub().set("x", resource.Meta, `{"annotations":{"notified":"yes","rev":"0"}}`)
		for i := range 50 {
			s.here().set("x", resource.Spec, number(i+1))
			s.here().set("x", resource.Meta, fmt.Sprintf(`{"annotations":{"rev":"%d"}}`, i+1))
			time.Sleep(10 * time.Millisecond)
		}
		w.settle()
		require.Equal(t, `{"annotations":{"notified":"yes","rev":"50"}}`, s.hub().part("x", resource.Meta))
		require.Equal(t, 50, s.hub().n("x", resource.Spec))
		require.Equal(t, `{"annotations":{"rev":"50"}}`, s.here().part("x", resource.Meta))
	})
}

// In managed mode the hub owns the annotations, and the agent's statuses leave them alone.
func TestScenario11_AnAnnotationThatStatusesLeaveAlone(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		const annotated = `{"annotations":{"notified":"yes"}}`
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		s.control.pause()
		w.start()
		s.hub().set("x", resource.Spec, number(0))
		w.agree()
		s.hub().set("x", resource.Meta, annotated)
		for i := range 50 {
			s.here().set("x", resource.Status, number(i+1))
			time.Sleep(10 * time.Millisecond)
		}
		w.await(f.patience, "the last status arrives", func() bool { return s.hub().n("x", resource.Status) == 50 })
		require.Equal(t, annotated, s.hub().part("x", resource.Meta))
		s.control.resume()
		w.settle()
		require.Equal(t, annotated, s.hub().part("x", resource.Meta))
	})
}

func TestScenario15_AThousandRowsOfAnAgentThatRestartsApart(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		const rows = 1000
		w := newWorld(t, f, 1, resource.Autonomous)
		s := w.spokes[0]
		w.start()
		s.here().set("first", resource.Spec, number(0))
		w.agree()
		s.cut()
		for i := range rows {
			s.here().set(fmt.Sprint("app-", i), resource.Spec, number(i))
		}
		time.Sleep(4 * f.tick)
		s.stop()
		s.start()
		time.Sleep(4 * f.tick)
		require.Len(t, s.hub().identities(), 1)
		s.fault(linktest.Healthy)
		w.await(f.patience, "all rows arrive", func() bool { return len(s.hub().identities()) == rows+1 })
		w.settle()
	})
}
