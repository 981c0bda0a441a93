package agent

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/observe"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// A joining is an agent that joins a live spoke, on which there are web, which the hub has
// too, and own, which it has not. The hub also has new.
type joining struct {
	t          *testing.T
	net        *memlink.Network
	hub, spoke *memstore.Store
	web, own   resource.Object // as they were
	adopted    *ledger.Set
	*Agent
	stop func()
}

func join(t *testing.T, f func(t *testing.T, j *joining)) {
	synctest.Test(t, func(t *testing.T) {
		j := &joining{t: t, net: memlink.New(memlink.Config{Keeps: true}), adopted: ledger.InMemory().Set("adopted")}
		hub, stopHub := hub(t, j.net)
		defer stopHub()
		j.hub, j.spoke = hub, memstore.New(memstore.Config{Name: "edge", Admit: func(o resource.Object) error {
			if o.Parts[resource.Spec] == `{"bad":true}` {
				return errors.New("it is bad")
			}
			return nil
		}})
		edit(j.spoke, app("argocd", "web"), resource.Spec, `{"n":0}`)
		edit(j.spoke, app("argocd", "web"), resource.Status, `{"health":"fine"}`)
		edit(j.spoke, app("argocd", "own"), resource.Spec, `{"n":0}`)
		j.web, _ = j.spoke.Get(app("argocd", "web"))
		j.own, _ = j.spoke.Get(app("argocd", "own"))
		edit(j.hub, app("", "web"), resource.Spec, `{"n":1}`)
		edit(j.hub, app("", "new"), resource.Spec, `{"n":1}`)
		j.start(j.adopted)
		defer func() { j.stop() }()
		settle()
		f(t, j)
	})
}

// start starts a process of the agent, when the one before has ended.
func (j *joining) start(adopted observe.List) {
	if j.stop != nil {
		j.stop()
	}
	a, err := New(Config{
		Name: "edge", Namespace: "argocd", Dialer: j.net.Agent("edge", presence()), Store: j.spoke,
		Rules: resource.Rules{Adopt: true}, Tick: time.Second, Adopted: adopted, Log: zap.NewNop(),
	})
	require.NoError(j.t, err)
	j.Agent = a
	j.stop = background(j.t, a.Run)
}

// planned returns what the agent would do, by object.
func (j *joining) planned() map[string]inquiry.Action {
	p, err := j.plan(j.t.Context())
	require.NoError(j.t, err)
	require.True(j.t, p.Whole)
	out := map[string]inquiry.Action{}
	for _, s := range p.Steps {
		out[s.Object()] = s.Action
	}
	return out
}

func (j *joining) decide(undo bool, names ...string) inquiry.Adopted {
	j.t.Helper()
	want := inquiry.Adoption{Undo: undo, All: len(names) == 0}
	for _, n := range names {
		want.Keys = append(want.Keys, app("", n))
	}
	done, err := j.adopt(j.t.Context(), want)
	require.NoError(j.t, err)
	return done
}

func (j *joining) get(name string) resource.Object {
	o, _ := j.spoke.Get(app("argocd", name))
	return o
}

// An agent that observes changes nothing, and says what it would.
func TestObserves(t *testing.T) {
	join(t, func(t *testing.T, j *joining) {
		require.NoError(t, j.Ready())
		require.Equal(t, map[string]inquiry.Action{"Application/web": inquiry.TakeOver, "Application/new": inquiry.Create}, j.planned())
		require.Equal(t, map[resource.Key]resource.Object{j.web.Key: j.web, j.own.Key: j.own}, j.spoke.All())
		st := j.standing(t.Context(), "")
		require.True(t, st.Observing)
		require.Equal(t, 2, st.Withheld)
		require.Zero(t, st.DeadLetters)
		require.NoError(t, j.Status().Err)
		o, _ := j.hub.Get(app("", "web"))
		require.Contains(t, o.Parts[resource.Pending], "only observes")
		require.Empty(t, o.Parts[resource.Status])

		// A level: what the hub does not have any more would not be made.
		j.hub.Delete(app("", "new"))
		settle()
		require.Equal(t, map[string]inquiry.Action{"Application/web": inquiry.TakeOver}, j.planned())
	})
}

// One is adopted: it is changed in place, and follows; the others stay as they are. A restart
// remembers it, and without observing all is done that was planned.
func TestAdopts(t *testing.T) {
	join(t, func(t *testing.T, j *joining) {
		done := j.decide(false, "web")
		require.Equal(t, inquiry.Adopted{Done: []string{"Application/web"}, Pending: []string{}}, done)
		require.Equal(t, `{"n":1}`, j.get("web").Parts[resource.Spec])
		require.Equal(t, j.web.UID, j.get("web").UID)
		require.Equal(t, map[string]inquiry.Action{"Application/new": inquiry.Create}, j.planned())
		settle()
		o, _ := j.hub.Get(app("", "web"))
		require.Equal(t, `{"health":"fine"}`, o.Parts[resource.Status])
		require.Empty(t, o.Parts[resource.Pending])

		j.start(j.adopted)
		settle()
		edit(j.hub, app("", "web"), resource.Spec, `{"n":2}`)
		settle()
		require.Equal(t, `{"n":2}`, j.get("web").Parts[resource.Spec])
		require.Empty(t, j.get("new").UID)

		j.start(nil)
		settle()
		require.Equal(t, `{"n":1}`, j.get("new").Parts[resource.Spec])
		require.Empty(t, j.planned())
		require.Equal(t, j.own, j.get("own"))
		_, err := j.adopt(t.Context(), inquiry.Adoption{All: true})
		require.ErrorIs(t, err, inquiry.ErrNotObserving)
		p, err := j.plan(t.Context())
		require.NoError(t, err)
		require.False(t, p.Observing)
	})
}

// It is let go again: it is what it was before, and follows no more. What was made stays.
func TestLetsGo(t *testing.T) {
	join(t, func(t *testing.T, j *joining) {
		j.decide(false)
		require.Equal(t, []string{"Application/new", "Application/web"}, j.adopted.All())
		settle()
		require.NotZero(t, j.get("new").Origin)
		done := j.decide(true, "web")
		require.Equal(t, []string{"Application/web"}, done.Done)
		o := j.get("web")
		require.Zero(t, o.Origin)
		require.Equal(t, j.web.Parts, o.Parts)
		edit(j.hub, app("", "web"), resource.Spec, `{"n":2}`)
		edit(j.hub, app("", "new"), resource.Spec, `{"n":2}`)
		settle()
		require.Equal(t, o, j.get("web"))
		require.Equal(t, `{"n":2}`, j.get("new").Parts[resource.Spec])
		j.decide(true)
		require.Empty(t, j.adopted.All())
		require.Zero(t, j.get("new").Origin)
		require.NotEmpty(t, j.get("new").UID)
	})
}

// What is adopted and cannot be written is told.
func TestAdoptedAndNotWritten(t *testing.T) {
	join(t, func(t *testing.T, j *joining) {
		edit(j.hub, app("", "new"), resource.Spec, `{"bad":true}`)
		settle()
		require.Zero(t, j.standing(t.Context(), "").DeadLetters)
		done := j.decide(false, "web", "new")
		require.Equal(t, inquiry.Adopted{Done: []string{"Application/web", "Application/new"}, Pending: []string{"Application/new"}}, done)
		require.Equal(t, 1, j.standing(t.Context(), "").DeadLetters)
		p, err := j.plan(t.Context())
		require.NoError(t, err)
		require.Len(t, p.Steps, 1)
		require.True(t, p.Steps[0].Adopted)
	})
}

func TestAdoptsOnlyWhatTheHubNames(t *testing.T) {
	join(t, func(t *testing.T, j *joining) {
		for name, c := range map[string]struct {
			want inquiry.Adoption
			err  error
		}{
			"its own":     {inquiry.Adoption{Keys: []resource.Key{app("", "web"), app("", "own")}}, inquiry.ErrNoObject},
			"nobody's":    {inquiry.Adoption{Keys: []resource.Key{app("", "none")}}, inquiry.ErrNoObject},
			"elsewhere":   {inquiry.Adoption{Keys: []resource.Key{app("other", "web")}}, inquiry.ErrNoObject},
			"not adopted": {inquiry.Adoption{Undo: true, Keys: []resource.Key{app("", "web")}}, inquiry.ErrNotAdopted},
		} {
			_, err := j.adopt(t.Context(), c.want)
			require.ErrorIs(t, err, c.err, name)
			require.Empty(t, j.adopted.All(), "all or nothing")
		}
	})
}

// A forgetful list does not reach its disk.
type forgetful struct{ observe.List }

func (f forgetful) Add(notes map[string]string) error {
	return errors.Join(f.List.Add(notes), errors.New("disk is full"))
}

// What cannot be kept is adopted all the same, and the user is told.
func TestAdoptedWithoutADisk(t *testing.T) {
	join(t, func(t *testing.T, j *joining) {
		j.start(forgetful{j.adopted})
		settle()
		_, err := j.adopt(t.Context(), inquiry.Adoption{Keys: []resource.Key{app("", "web")}})
		require.ErrorContains(t, err, "disk is full")
		settle()
		require.Equal(t, `{"n":1}`, j.get("web").Parts[resource.Spec])
	})
}

// Where an object may not be it would not be made, and its plan says so.
func TestPlanOfWhatIsForbidden(t *testing.T) {
	join(t, func(t *testing.T, j *joining) {
		edit(j.hub, app("kube-system", "web"), resource.Spec, `{}`)
		settle()
		p, err := j.plan(t.Context())
		require.NoError(t, err)
		require.Len(t, p.Steps, 3)
		require.Equal(t, "Application/kube-system/web", p.Steps[2].Object())
		require.Len(t, p.Steps[2].Notes, 1)
		require.Contains(t, p.Steps[2].Notes[0], "it would be refused: ")
	})
}
