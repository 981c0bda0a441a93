package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

func TestTwoSessionsKeepTheirStoresInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.hub.set("a", resource.Spec, `{"n":1}`)
		settle(0)
		require.Equal(t, `{"n":1}`, r.spoke.part("a", resource.Spec), "at once, on a perfect link")
		r.spoke.set("a", resource.Status, `{"health":"Healthy"}`)
		settle(0)
		require.Equal(t, `{"health":"Healthy"}`, r.hub.part("a", resource.Status))
		r.spoke.set("a", resource.Spec, `{"n":2}`)
		settle(0)
		require.Equal(t, `{"n":1}`, r.spoke.part("a", resource.Spec), "drift is undone")

		settle(10 * time.Second)
		for _, s := range []*side{r.hub, r.spoke} {
			st := s.Status()
			require.True(t, st.Running)
			require.True(t, st.Connected)
			require.True(t, st.Engine.InStep)
			require.Equal(t, 1, st.Engine.Rows)
			require.Equal(t, "test", st.Peer.Version)
			require.NoError(t, st.Err)
		}
		r.hub.cluster.Delete(app("a"))
		settle(0)
		require.Empty(t, r.spoke.cluster.All())
	})
}

func TestASessionIsSilentOnceAllIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		for i := range 20 {
			r.hub.set(fmt.Sprint(i), resource.Spec, `{}`)
		}
		settle(10 * time.Second)
		down, up := r.net.Traffic(agentName)
		settle(time.Hour)
		after, afterUp := r.net.Traffic(agentName)
		require.Equal(t, down, after)
		require.Equal(t, up, afterUp)
		require.Equal(t, 20, down.Values)
	})
}

func TestRunEndsWithItsContextOrItsLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		settle(0)
		require.ErrorIs(t, r.hub.stop(), context.Canceled)
		require.False(t, r.hub.Status().Running)
		require.Error(t, r.hub.Run(t.Context()), "it has run")
		require.Error(t, r.hub.Approve(t.Context(), ""))

		require.NoError(t, r.spoke.link.Close())
		synctest.Wait()
		require.False(t, r.spoke.Status().Running)
		require.ErrorIs(t, r.spoke.stop(), transport.ErrClosed)
	})
}

func TestNewChecksItsConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hub.start()
		good := session.Config{Engine: r.hub.engine, Store: r.hub.cluster, Link: r.hub.link}
		_, err := session.New(good)
		require.NoError(t, err)
		for name, spoil := range map[string]func(*session.Config){
			"a store":      func(c *session.Config) { c.Store = nil },
			"a link":       func(c *session.Config) { c.Link = nil },
			"identity":     func(c *session.Config) { c.Engine.Self = "" },
			"as in a URL":  func(c *session.Config) { c.Engine.Self = "hub one" },
			"to spoke":     func(c *session.Config) { c.Engine.Peer = "another" },
			"tick":         func(c *session.Config) { c.Tick = -1 },
			"not be negat": func(c *session.Config) { c.Workers = -1 },
		} {
			bad := good
			spoil(&bad)
			_, err := session.New(bad)
			require.ErrorContains(t, err, name)
		}
		s, err := session.New(good)
		require.NoError(t, err)
		require.Equal(t, session.Status{}, s.Status(), "before it runs")
	})
}

// A store that is not listed keeps everything from being kept in step, and that is said.
func TestAStoreThatIsNotListedIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		shut := make(chan struct{})
		r.spoke.store = shutStore{r.spoke.cluster, shut}
		r.start()
		settle(5 * time.Second)
		require.NoError(t, r.spoke.Status().Err, "it may only be slow")
		settle(10 * time.Second)
		require.ErrorContains(t, r.spoke.Status().Err, "cannot be listed yet")
		require.NoError(t, r.hub.Status().Err)
		close(shut)
		settle(0)
		require.NoError(t, r.spoke.Status().Err)
	})
}

// A shutStore shows nothing until it is opened.
type shutStore struct {
	backend.Store
	opens <-chan struct{}
}

// Watch implements backend.Store.
func (s shutStore) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	select {
	case <-s.opens:
		return s.Store.Watch(ctx, scope, f)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func TestOneSlowObjectDelaysNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		slow := &slowStore{Store: r.spoke.cluster, slow: app("slow"), delay: time.Hour}
		r.spoke.store = slow
		r.start()
		r.hub.set("slow", resource.Spec, `{}`)
		settle(0)
		for i := range 200 {
			r.hub.set(fmt.Sprint(i), resource.Spec, `{}`)
		}
		settle(0)
		require.Len(t, r.spoke.cluster.All(), 200)
		require.True(t, r.spoke.Status().Running, "the loop does not wait for it either")
		settle(2 * time.Hour)
		require.Len(t, r.spoke.cluster.All(), 201)
	})
}

// A slowStore takes its time to write one object.
type slowStore struct {
	backend.Store
	slow  resource.Key
	delay time.Duration
}

func (s *slowStore) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	if want.Key == s.slow {
		time.Sleep(s.delay)
	}
	return s.Store.Write(ctx, want)
}

func TestNoMoreWritesAtOnceThanWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		busy := &busyStore{Store: r.spoke.cluster}
		r.spoke.store = busy
		r.spoke.tune = func(c *session.Config) { c.Workers = 5 }
		r.start()
		for i := range 100 {
			r.hub.set(fmt.Sprint(i), resource.Spec, `{}`)
		}
		settle(time.Minute)
		require.Len(t, r.spoke.cluster.All(), 100)
		require.EqualValues(t, 5, busy.most.Load())
	})
}

// A busyStore counts the writes under way.
type busyStore struct {
	backend.Store
	now, most atomic.Int64
}

func (s *busyStore) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	time.Sleep(time.Second)
	return s.Store.Write(ctx, want)
}

func TestRefusalsAndFailuresAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.spoke.cluster = memstore.New(memstore.Config{Name: "spoke", Admit: func(o resource.Object) error {
			if strings.Contains(o.Parts[resource.Spec], "bad") {
				return errors.New("spec is bad: \xff")
			}
			return nil
		}})
		failing := &failingStore{Store: r.spoke.cluster}
		r.spoke.store = failing
		r.start()
		r.hub.set("bad", resource.Spec, `"bad"`)
		r.hub.set("good", resource.Spec, `"good"`)
		settle(10 * time.Second)
		require.Contains(t, r.hub.part("bad", resource.Fault), "spec is bad: \uFFFD")
		require.Equal(t, `"good"`, r.spoke.part("good", resource.Spec))

		failing.fail.Store(true)
		r.hub.set("good", resource.Spec, `"better"`)
		settle(time.Minute)
		require.Equal(t, `"good"`, r.spoke.part("good", resource.Spec))
		require.Less(t, failing.tries.Load(), int64(10), "later and later")
		failing.fail.Store(false)
		settle(5 * time.Minute)
		require.Equal(t, `"better"`, r.spoke.part("good", resource.Spec))
	})
}

// A failingStore fails at times.
type failingStore struct {
	backend.Store
	fail  atomic.Bool
	tries atomic.Int64
}

func (s *failingStore) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	if s.fail.Load() {
		s.tries.Add(1)
		return resource.Object{}, errors.New("try again later")
	}
	return s.Store.Write(ctx, want)
}

func TestARaceIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zapcore.WarnLevel)
		r := newRig(t)
		r.spoke.tune = func(c *session.Config) { c.Log = zap.New(core) }
		racing := &racingStore{Store: r.spoke.cluster, race: func() { r.spoke.set("a", resource.Status, `{"n":1}`) }}
		r.spoke.store = racing
		r.start()
		r.hub.set("a", resource.Spec, `{"n":1}`)
		settle(0)
		racing.on.Store(true)
		r.hub.set("a", resource.Spec, `{"n":2}`)
		settle(time.Second)
		require.False(t, racing.on.Load(), "there was a race")
		require.Equal(t, `{"n":2}`, r.spoke.part("a", resource.Spec))
		require.Equal(t, `{"n":1}`, r.hub.part("a", resource.Status))
		require.Zero(t, log.Len())
	})
}

// A racingStore has somebody else be faster, once.
type racingStore struct {
	backend.Store
	on   atomic.Bool
	race func()
}

func (s *racingStore) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	if s.on.CompareAndSwap(true, false) {
		s.race()
	}
	return s.Store.Write(ctx, want)
}

func TestRestartsCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		for i := range 20 {
			r.hub.set(fmt.Sprint(i), resource.Spec, `{}`)
		}
		settle(10 * time.Second)
		down, up := r.net.Traffic(agentName)
		for _, s := range []*side{r.hub, r.spoke} {
			s.stop()
			s.start()
			settle(10 * time.Second)
		}
		after, afterUp := r.net.Traffic(agentName)
		require.Equal(t, down, after)
		require.Equal(t, up, afterUp)
	})
}

func TestDriftIsUndoneOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.hub.set("a", resource.Spec, `{"n":1}`)
		settle(time.Minute)
		r.net.Set(agentName, memlink.Weather{Line: memlink.Cut})
		r.spoke.stop()
		r.spoke.set("a", resource.Spec, `{"n":666}`)
		r.spoke.start()
		settle(time.Second)
		require.False(t, r.spoke.Status().Connected)
		require.Equal(t, `{"n":1}`, r.spoke.part("a", resource.Spec))
	})
}

// Whoever looks on sees each event once the Engine has taken it in, on the loop.
func TestEventsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var kinds []string
		var told []string
		r.hub.tune = func(c *session.Config) {
			c.Observe = func(ev engine.Event, eng *engine.Engine) {
				kinds = append(kinds, fmt.Sprintf("%T", ev))
				if got, ok := ev.(engine.Received); ok && got.Message.Key == app("a") {
					row, says := eng.Told(app("a"))
					told = append(told, fmt.Sprint(says, row.Parts[resource.Status]))
				}
			}
		}
		r.start()
		r.hub.set("a", resource.Spec, `{}`)
		settle(0)
		r.spoke.set("a", resource.Status, `{"n":1}`)
		settle(5 * time.Second)
		r.spoke.set("a", resource.Status, ``)
		settle(5 * time.Second)
		require.ErrorIs(t, r.hub.stop(), context.Canceled)
		for _, kind := range []string{"engine.Opened", "engine.Presence", "engine.Tick", "engine.Changed"} {
			require.Contains(t, kinds, kind)
		}
		require.Equal(t, []string{`true{"n":1}`, "false"}, told)
	})
}
