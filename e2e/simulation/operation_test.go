package simulation

import (
	"fmt"
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
