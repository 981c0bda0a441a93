package session_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// speaking is the range of a program whose newest version is n.
func speaking(n int) wire.Range { return wire.Range{Oldest: max(1, n-2), Newest: n} }

// A scribe is a link that remembers in which version each key was sent last.
type scribe struct {
	transport.Link
	mu   sync.Mutex
	last map[string]int
}

func (s *scribe) Send(ctx context.Context, m transport.Message) error {
	v, _ := wire.VersionOf(m)
	s.mu.Lock()
	s.last[m.Key] = v
	s.mu.Unlock()
	return s.Link.Send(ctx, m)
}

// written returns the versions of all that was sent last, with one example of each.
func (s *scribe) written() map[int]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[int]string{}
	for k, v := range s.last {
		out[v] = k
	}
	return out
}

// watchWriting has what a side writes from now on remembered.
func (s *side) watchWriting() *scribe {
	w := &scribe{last: map[string]int{}}
	s.wrap = func(l transport.Link) transport.Link {
		w.Link = l
		return w
	}
	return w
}

// agree demands that both sides are in step, with these Applications of n, and that nothing
// was said that the other has not understood.
func (r *rig) agree(n int, names ...string) {
	r.t.Helper()
	settle(time.Minute)
	for _, s := range []*side{r.hub, r.spoke} {
		st := s.Status()
		require.NoError(r.t, st.Err)
		require.True(r.t, st.Engine.InStep, s.engine.Self)
		require.Zero(r.t, st.DeadLetters)
		require.Empty(r.t, st.Engine.Held)
		require.Len(r.t, s.cluster.All(), len(names))
		for _, name := range names {
			require.Equal(r.t, fmt.Sprintf(`{"n":%d}`, n), s.part(name, resource.Spec))
		}
	}
}

func (r *rig) set(n int, names ...string) {
	for _, name := range names {
		r.hub.set(name, resource.Spec, fmt.Sprintf(`{"n":%d}`, n))
	}
}

// onEachLog plays a story where logs outlive processes, and where they do not.
func onEachLog(t *testing.T, story func(t *testing.T, r *rig)) {
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprintf("keeps=%t", keeps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.net = memlink.New(memlink.Config{Keeps: keeps})
				story(t, r)
			})
		})
	}
}

func TestBothWriteInTheNewestVersionThatBothSpeak(t *testing.T) {
	for _, c := range []struct{ hub, agent, want int }{
		{4, 4, 4}, {4, 3, 3}, {3, 4, 3}, {4, 5, 4}, {5, 4, 4}, {4, 2, 2}, {4, 6, 4},
	} {
		t.Run(fmt.Sprint(c.hub, "-", c.agent), func(t *testing.T) {
			onEachLog(t, func(t *testing.T, r *rig) {
				r.hub.speaks, r.spoke.speaks = speaking(c.hub), speaking(c.agent)
				down, up := r.hub.watchWriting(), r.spoke.watchWriting()
				r.start()
				r.set(1, "a", "b")
				r.spoke.set("a", resource.Status, `"healthy"`)
				settle(time.Minute)
				r.set(2, "a", "b")
				r.agree(2, "a", "b")
				for _, s := range []*scribe{down, up} {
					for v, key := range s.written() {
						require.True(t, r.hub.speaks.Has(v) && r.spoke.speaks.Has(v), "%s is of %d", key, v)
					}
					require.Contains(t, s.written(), c.want)
				}
				require.Equal(t, c.want, down.last["Application/ns/a"])
			})
		})
	}
}

// TestVersionsChangeInPlace: a side is upgraded and downgraded step by step while the other
// runs on, and while it is away. Nothing is lost, and nobody is sent what it cannot read.
func TestVersionsChangeInPlace(t *testing.T) {
	for _, who := range []string{"agent", "hub"} {
		for _, away := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/away=%t", who, away), func(t *testing.T) {
				onEachLog(t, func(t *testing.T, r *rig) { changeInPlace(t, r, who, away) })
			})
		}
	}
}

func changeInPlace(t *testing.T, r *rig, who string, away bool) {
	changes, stays := r.spoke, r.hub
	if who == "hub" {
		changes, stays = r.hub, r.spoke
	}
	stays.speaks, changes.speaks = speaking(4), speaking(4)
	r.start()
	r.set(0, "a", "b", "c", "quiet")
	r.agree(0, "a", "b", "c", "quiet")
	for i, newest := range []int{3, 4, 5, 4, 2, 6, 4} {
		changes.stop()
		if away {
			stays.stop()
		}
		changes.speaks = speaking(newest)
		r.set(i, "a", "b", fmt.Sprint("new-", i))
		if who == "agent" && !away {
			r.hub.cluster.Delete(app(fmt.Sprint("new-", i-1))) // which the hub sees, and says as before
			settle(time.Minute)
		}
		changes.start()
		settle(time.Minute)
		if away {
			stays.start()
		}
		settle(time.Minute)
		r.hub.cluster.Delete(app(fmt.Sprint("new-", i-1)))
		r.set(i, "c", "quiet")
		r.agree(i, "a", "b", "c", "quiet", fmt.Sprint("new-", i))
		r.readable()
	}
}

// readable demands that nothing is in the logs, if they keep anything, that the other side does
// not read, but for answers to what was asked before.
func (r *rig) readable() {
	common, ok := r.hub.speaks.With(r.spoke.speaks)
	require.True(r.t, ok)
	for _, s := range []*side{r.hub, r.spoke} {
		log, err := s.link.Log(r.t.Context())
		require.NoError(r.t, err)
		require.True(r.t, !log.Keeps || len(log.Rows) > 1)
		delete(log.Rows, wire.Name(engine.SumsKey))
		for name, row := range log.Rows {
			v, ok := wire.VersionOf(row)
			require.True(r.t, ok && common.Has(v), "%s of %s is of %d", name, s.engine.Self, v)
		}
	}
}

// TestAPeerOfAnotherTimeIsNotUnderstood: nothing that it says is applied, and nothing is
// undone. Once it is upgraded all is as it should be, without a restart here.
func TestAPeerOfAnotherTimeIsNotUnderstood(t *testing.T) {
	for _, c := range []struct {
		newest       int // of the agent; the hub's is 4
		above, below string
	}{
		{1, "upgrade spoke, to what speaks version 2", "upgrade this side, spoke, to what speaks version 2"},
		{7, "upgrade this side, hub-1, to what speaks version 5", "upgrade principal, to what speaks version 5"},
	} {
		t.Run(fmt.Sprint(c.newest), func(t *testing.T) {
			onEachLog(t, func(t *testing.T, r *rig) {
				r.hub.speaks, r.spoke.speaks = speaking(4), speaking(4)
				above, below := r.hub.logged(), r.spoke.logged()
				r.start()
				r.set(1, "a", "b")
				r.agree(1, "a", "b")
				r.spoke.stop()

				r.spoke.speaks = speaking(c.newest)
				r.spoke.start()
				r.set(2, "a", "new")
				r.hub.cluster.Delete(app("b"))
				r.spoke.set("a", resource.Status, `"unheard of"`)
				settle(time.Hour)
				require.ErrorContains(t, r.hub.Status().Refusal, c.above)
				require.ErrorContains(t, r.spoke.Status().Err, c.below)
				require.False(t, r.hub.Status().Engine.InStep || r.spoke.Status().Engine.InStep)
				for _, log := range []*observer.ObservedLogs{above, below} {
					require.Equal(t, 1, log.FilterMessage("peer is refused").Len())
				}
				require.Equal(t, `{"n":1}`, r.spoke.part("a", resource.Spec), "what it says is not applied")
				require.Equal(t, `{"n":1}`, r.spoke.part("b", resource.Spec), "nothing is removed")
				require.Empty(t, r.spoke.part("new", resource.Spec))
				require.Empty(t, r.hub.part("a", resource.Status))
				require.Zero(t, r.hub.Status().DeadLetters+r.spoke.Status().DeadLetters)

				r.spoke.stop()
				r.spoke.speaks = speaking(4)
				r.spoke.start()
				r.agree(2, "a", "new")
				require.Equal(t, `"unheard of"`, r.hub.part("a", resource.Status))
				require.NoError(t, r.hub.Status().Refusal)
			})
		})
	}
}

// logged has the errors that a side logs remembered.
func (s *side) logged() *observer.ObservedLogs {
	core, log := observer.New(zapcore.ErrorLevel)
	s.tune = func(c *session.Config) { c.Log = zap.New(core) }
	return log
}

// TestWhatIsUnderstoodStaysInForce: a copy of what was heard from a peer that is refused now is
// kept as it was.
func TestWhatIsUnderstoodStaysInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hub.speaks, r.spoke.speaks = speaking(4), speaking(4)
		r.start()
		r.set(1, "a")
		r.agree(1, "a")
		r.hub.stop()
		r.hub.speaks = speaking(9)
		r.hub.start()
		settle(time.Minute)
		require.ErrorIs(t, r.spoke.Status().Err, transport.ErrVersion)
		r.spoke.set("a", resource.Spec, `{"n":666}`)
		settle(time.Second)
		require.Equal(t, `{"n":1}`, r.spoke.part("a", resource.Spec))
	})
}

// TestHeldDeletionsStayHeldInAnotherVersion: what a process held back is not known to one that
// cannot read that, which holds back all that is missing.
func TestHeldDeletionsStayHeldInAnotherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hub.speaks, r.spoke.speaks = speaking(4), speaking(4)
		empty := r.hub.cluster.Snapshot()
		r.start()
		names := []string{"a", "b", "c", "d"}
		r.set(1, names...)
		r.agree(1, names...)
		r.hub.stop()
		r.net.Lose(agentName, memlink.HubLog)
		r.hub.cluster.Restore(empty)
		r.hub.start()
		settle(time.Minute)
		require.Len(t, r.spoke.Status().Engine.Held, len(names))

		r.set(1, names[1:]...) // one is still missing, which alone would be removed
		r.spoke.stop()
		r.spoke.speaks = speaking(3)
		r.spoke.start()
		settle(time.Hour)
		require.Len(t, r.spoke.Status().Engine.Held, 1)
		require.Len(t, r.spoke.cluster.All(), len(names))
	})
}

// TestAMessageOfAnotherVersionIsADeadLetter: one that a peer goes on writing although it knows
// better concerns that message alone.
func TestAMessageOfAnotherVersionIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hub.speaks, r.spoke.speaks = speaking(4), speaking(4)
		r.hub.wrap = func(l transport.Link) transport.Link { return modern{l, "Application/ns/poison"} }
		r.start()
		r.set(1, "a", "poison", "b")
		settle(time.Minute)
		st := r.spoke.Status()
		require.Len(t, r.spoke.cluster.All(), 2)
		require.NoError(t, st.Err)
		require.Equal(t, 1, st.DeadLetters)
		require.True(t, st.Engine.InStep, "it is asked for no more")

		r.set(2, "a", "b")
		settle(0)
		require.Equal(t, `{"n":2}`, r.spoke.part("b", resource.Spec))
	})
}

// A modern link writes one key in a version of the future.
type modern struct {
	transport.Link
	key string
}

func (l modern) Send(ctx context.Context, m transport.Message) error {
	if m.Key == l.key {
		m.Event.SetExtension("protocolversion", "99")
	}
	return l.Link.Send(ctx, m)
}
