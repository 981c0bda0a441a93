package simulation

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

// A half-listed store shows some of its objects and then, until it is opened, no more.
type halfListed struct {
	backend.Store
	shows int
	open  chan struct{}
}

// Watch implements backend.Store.
func (s halfListed) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	shown := 0
	return s.Store.Watch(ctx, scope, func(e backend.Event) error {
		if shown++; shown > s.shows {
			select {
			case <-s.open:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return f(e)
	})
}

func TestScenario20_AgentsThatAreThereBeforeTheHubHasListedItsObjects(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		const apps = 20
		w := newWorld(t, f, 2, resource.Managed)
		w.start()
		for _, s := range w.spokes {
			for i := range apps {
				s.hub().set(fmt.Sprint("app-", i), resource.Spec, number(i))
			}
		}
		w.agree()
		before := map[string]map[string]string{}
		for _, s := range w.spokes {
			before[s.name] = s.here().identities()
		}
		w.stopHub()
		open := make(chan struct{})
		var once sync.Once
		admit := func() { once.Do(func() { close(open) }) }
		t.Cleanup(admit)
		w.view = func(s backend.Store) backend.Store { return halfListed{s, apps / 2, open} }
		w.startHub()
		for _, s := range w.spokes {
			s.down.reset()
		}
		time.Sleep(30 * f.tick)
		require.ErrorContains(t, w.principal.Ready(), "is being admitted")
		for _, s := range w.spokes {
			require.Equal(t, before[s.name], s.here().identities(), "nothing is deleted for what was not listed yet")
			require.Empty(t, s.down.written())
		}
		admit()
		w.settle()
		require.NoError(t, w.principal.Ready())
		for _, s := range w.spokes {
			require.Equal(t, before[s.name], s.here().identities())
			require.Empty(t, s.down.written())
		}
	})
}

func TestScenario24_AForcedDeletionWhoseAgentIsGoneForGood(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		core, log := observer.New(zapcore.InfoLevel)
		w := newWorld(t, f, 1, resource.Managed)
		w.log = zap.New(core)
		s := w.spokes[0]
		w.start()
		for _, name := range []string{"x", "y"} {
			s.hub().set(name, resource.Spec, number(1))
		}
		s.hub().set("x", resource.Meta, cascade)
		w.agree()
		s.stop()
		s.hub().delete("x")
		w.await(f.patience, "the hub says what it waits for", func() bool { return s.hub().part("x", resource.Pending) != "" })
		require.True(t, s.hub().has("x"))

		s.hub().set("x", resource.Meta, "") // as an operator does who knows that the cluster is no more
		w.await(f.patience, "it is gone", func() bool { return !s.hub().has("x") })
		time.Sleep(2 * f.tick)
		lines := log.Len()
		sent := s.up.sent.Load()
		time.Sleep(50 * f.tick)
		require.Equal(t, lines, log.Len(), "nobody is told again and again: %v", log.All())
		require.Equal(t, sent, s.up.sent.Load())

		s.control.pause()
		s.start() // it was not gone after all
		w.await(f.patience, "the copy goes", func() bool { return !s.here().has("x") })
		s.control.resume()
		w.settle()
		require.True(t, s.here().has("y"))
	})
}

func TestScenario30_AHubThatIsAwayForAnHour(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		away := 50 * f.tick // 100 s where time is real enough to wait for
		if f.virtual {
			away = time.Hour
		}
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		for i := range 3 {
			s.hub().set(fmt.Sprint("app-", i), resource.Spec, number(i))
		}
		w.agree()
		w.stopHub()
		drift := func(name string, right int) {
			s.here().set(name, resource.Spec, number(666))
			w.await(10*time.Second, "drift is reverted", func() bool { return s.here().n(name, resource.Spec) == right })
		}
		for range 20 {
			require.NoError(t, s.agent.Ready(), "an agent whose hub is away is ready")
			drift("app-1", 1)
			time.Sleep(away / 20)
		}
		if f.keeps {
			s.stop()
			s.here().set("app-2", resource.Spec, number(666))
			s.start()
			w.await(10*time.Second, "also what drifted while the agent did not run", func() bool { return s.here().n("app-2", resource.Spec) == 2 })
			require.NoError(t, s.agent.Ready())
		}
		s.here().delete("app-0")
		w.await(10*time.Second, "what was deleted comes back", func() bool { return s.here().n("app-0", resource.Spec) == 0 })
		w.startHub()
		w.settle()
	})
}

// What is excluded while the agent is away is left alone on the spoke once it is back, whatever
// is done to it on either side, and travels again once it is not excluded any more.
func TestScenario17_ExcludedWhileTheAgentIsAway(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		s.control.pause()
		w.start()
		for _, name := range []string{"x", "left", "other"} {
			s.hub().set(name, resource.Spec, number(1))
		}
		w.agree()
		before := s.here().identities()
		s.cut()
		for _, name := range []string{"x", "left"} {
			s.hub().set(name, resource.Meta, `{"labels":{"`+backend.IgnoreLabel+`":"true"}}`)
			s.hub().set(name, resource.Spec, number(2))
		}
		s.hub().set("other", resource.Spec, number(2))
		time.Sleep(4 * f.tick)
		s.fault(linktest.Healthy)
		w.await(f.patience, "what is not excluded arrives", func() bool { return s.here().n("other", resource.Spec) == 2 })
		w.await(f.patience, "the two are in step", func() bool { return s.upper().Engine.InStep && s.lower().Engine.InStep })
		s.here().set("x", resource.Spec, number(3))
		time.Sleep(4 * f.tick)
		require.Equal(t, before, s.here().identities(), "nothing is deleted or made anew")
		require.Equal(t, 3, s.here().n("x", resource.Spec), "neither changed, nor kept as it was")
		require.Equal(t, 1, s.here().n("left", resource.Spec))

		s.hub().set("x", resource.Meta, "")
		w.await(f.patience, "it travels again", func() bool { return s.here().n("x", resource.Spec) == 2 })
		s.control.resume()
		w.await(f.patience, "and so does its status", func() bool { return s.hub().n("x", resource.Status) == 2 })
		require.Equal(t, before, s.here().identities())
	})
}
