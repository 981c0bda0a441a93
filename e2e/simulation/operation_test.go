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
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		x := s.key("x")
		w.start()
		set(w.cluster, x, resource.Spec, number(0))
		w.agree()
		s.fault(linktest.Cut)
		set(w.cluster, x, resource.Operation, `{"sync":{"revision":"the one"}}`)
		for i := range 5 {
			time.Sleep(f.tick)
			set(w.cluster, x, resource.Spec, number(i+1))
		}
		require.Equal(t, `{"sync":{"revision":"the one"}}`, part(w.cluster, x, resource.Operation), "it is shown as asked for")
		s.fault(linktest.Healthy)
		w.settle()
		s.fault(linktest.Cut)
		time.Sleep(4 * f.tick)
		s.fault(linktest.Healthy)
		w.settle()

		require.Empty(t, part(w.cluster, x, resource.Operation))
		require.Equal(t, finished(`{"sync":{"revision":"the one"}}`), part(w.cluster, x, resource.OpState))
		runs := s.control.counts()
		require.Len(t, runs, 1)
		for what, n := range runs {
			require.Equal(t, 1, n)
			require.Contains(t, what, `"revision":"the one"`)
		}
		require.Equal(t, number(5), part(s.cluster, x, resource.Spec))
	})
}

func TestAnOperationSurvivesAPrincipalThatDiesAllTheTime(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, managed)
		s := w.spokes[0]
		x := s.key("x")
		w.start()
		set(w.cluster, x, resource.Spec, number(0))
		w.agree()
		const times = 5
		for i := range times {
			set(w.cluster, x, resource.Operation, fmt.Sprintf(`{"sync":{"revision":"%d"}}`, i))
			time.Sleep(time.Duration(i) * time.Millisecond)
			w.stopHub()
			w.startHub()
			w.await(f.patience, "it has run", func() bool { return part(w.cluster, x, resource.Operation) == "" })
		}
		w.settle()
		runs := s.control.counts()
		require.Len(t, runs, times)
		for what, n := range runs {
			require.Equal(t, 1, n, what)
		}
	})
}
