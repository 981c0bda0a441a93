package admin

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// told returns what is said of the Application edge/a.
func (r *rig) told() Explanation {
	r.t.Helper()
	all, err := r.Explain(r.t.Context(), Object{Kind: string(resource.Application), Name: "a"}, "edge")
	require.NoError(r.t, err)
	require.Len(r.t, all.Objects, 1)
	return all.Objects[0]
}

// causes returns who is behind and why, in brief.
func causes(e Explanation) (out []string) {
	for _, r := range e.Behind {
		out = append(out, r.Where+" "+r.What)
	}
	return out
}

// pass lets virtual time pass, but no more of it.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestExplainFollowsAChangeThereAndBack(t *testing.T) {
	within(t, agents{{Name: "edge", Mode: resource.Managed}}, func(t *testing.T, r *rig) {
		spoke, stop := r.spoke("edge", resource.Rules{Mode: resource.Managed, Adopt: true})
		defer stop()
		settle()
		began := time.Now()
		edit(r.hub, app("edge", "a"), resource.Spec, spec("v1"))
		pass(time.Second)
		e := r.told()
		require.Equal(t, "Application/edge/a", e.Object.Kind+"/"+e.Object.Namespace+"/"+e.Object.Name)
		require.Equal(t, []string{"spoke argocd"}, causes(e))
		require.Len(t, e.Changes, 1)
		require.Equal(t, StageWaits, e.Changes[0].Reconciled.State)

		edit(spoke, app("argocd", "a"), resource.Status, `{"conditions":[{"message":"no such project","type":"InvalidSpecError"}]}`)
		pass(time.Second)
		require.Contains(t, r.told().Behind[0].Text, "and says: InvalidSpecError: no such project")
		edit(spoke, app("argocd", "a"), resource.Status, `{"reconciledAt":"`+time.Now().UTC().Format(time.RFC3339)+`"}`)
		pass(time.Second)
		e = r.told()
		require.Empty(t, e.Behind)
		require.Len(t, e.Changes, 3, "the change, and what came back: that it cannot be, and that it is")
		down := e.Changes[0]
		for _, s := range []Stage{down.Seen, down.Logged, down.Come, down.Done, *down.Reconciled, *down.Back} {
			require.Equal(t, StageDone, s.State)
			require.GreaterOrEqual(t, s.After, 0.0)
		}
		require.Zero(t, down.Done.At.Sub(began), "nothing takes time in a bubble")
		require.InDelta(t, 2, down.Back.After, 0.01)
		require.Equal(t, SpokeSide, e.Changes[1].From)
		require.Equal(t, StageDone, e.Changes[1].Done.State)
		require.Nil(t, e.Changes[1].Reconciled)
		require.NotNil(t, e.Clock)
		require.Zero(t, e.Clock.Ahead)
	})
}

const ignored = `{"labels":{"argocd-agent.argoproj-labs.io/ignore-sync":"true"}}`

// TestExplainSaysWhoIsBehind has one trouble at a time.
func TestExplainSaysWhoIsBehind(t *testing.T) {
	managed := agents{{Name: "edge", Mode: resource.Managed}}
	open := resource.Rules{Mode: resource.Managed, Adopt: true}
	refuse := func(s *stubborn, err error) { s.why.Store(&err) }
	cases := map[string]struct {
		rules resource.Rules
		do    func(t *testing.T, r *rig, spoke *stubborn, stop func())
		want  []string
	}{
		"the agent is away": {open, func(_ *testing.T, r *rig, _ *stubborn, stop func()) {
			stop()
			pass(time.Minute)
			edit(r.hub, app("edge", "a"), resource.Spec, spec("v2"))
			pass(time.Second)
		}, []string{"link away"}},
		"the write fails": {open, func(_ *testing.T, r *rig, spoke *stubborn, _ func()) {
			refuse(spoke, errors.New("exceeded quota"))
			edit(r.hub, app("edge", "a"), resource.Spec, spec("v2"))
			pass(time.Second)
		}, []string{"spoke failing"}},
		"the write is refused": {open, func(_ *testing.T, r *rig, spoke *stubborn, _ func()) {
			refuse(spoke, backend.ErrRefused)
			edit(r.hub, app("edge", "a"), resource.Spec, spec("v2"))
			pass(time.Second)
		}, []string{"spoke refused-write", "spoke dead-letter"}},
		"the name is taken": {resource.Rules{Mode: resource.Managed}, func(_ *testing.T, r *rig, spoke *stubborn, _ func()) {
			r.hub.Delete(app("edge", "a"))
			pass(time.Minute)
			edit(spoke, app("argocd", "a"), resource.Spec, spec("local"))
			edit(r.hub, app("edge", "a"), resource.Spec, spec("v2"))
			pass(time.Second)
		}, []string{"spoke policy", "spoke dead-letter"}},
		"it is excluded on the spoke": {open, func(_ *testing.T, r *rig, spoke *stubborn, _ func()) {
			edit(spoke, app("argocd", "a"), resource.Meta, ignored)
			edit(r.hub, app("edge", "a"), resource.Spec, spec("v2"))
			pass(time.Second)
		}, []string{"spoke excluded"}},
		"it is excluded on the hub": {open, func(_ *testing.T, r *rig, _ *stubborn, _ func()) {
			edit(r.hub, app("edge", "a"), resource.Meta, ignored)
			pass(time.Second)
		}, []string{"hub excluded"}},
		"an operation is busy": {open, func(_ *testing.T, r *rig, spoke *stubborn, _ func()) {
			edit(spoke, app("argocd", "a"), resource.Operation, `{"sync":{"revision":"local"}}`)
			edit(r.hub, app("edge", "a"), resource.Operation, `{"sync":{"revision":"v2"}}`)
			pass(time.Second)
		}, []string{"spoke operation"}},
		"the status cannot be written": {open, func(_ *testing.T, r *rig, spoke *stubborn, _ func()) {
			refuse(r.hub, errors.New("etcd is full"))
			edit(spoke, app("argocd", "a"), resource.Status, `{"health":"Healthy"}`)
			pass(time.Second)
		}, []string{"hub failing"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			within(t, managed, func(t *testing.T, r *rig) {
				spoke, end := r.spoke("edge", c.rules)
				ended := false
				stop := func() {
					if !ended {
						ended = true
						end()
					}
				}
				defer stop()
				edit(r.hub, app("edge", "a"), resource.Spec, spec("v1"))
				pass(time.Minute)
				c.do(t, r, spoke, stop)
				e := r.told()
				require.Equal(t, c.want, causes(e), "%+v", e.Behind)
				if e.Spoke == nil {
					last := e.Changes[len(e.Changes)-1]
					require.Equal(t, StageDone, last.Logged.State)
					require.Equal(t, StageUnknown, last.Come.State, "nobody can know")
					require.NotEmpty(t, e.Unknown)
				}
				r.hub.why.Store(nil)
				spoke.why.Store(nil)
			})
		})
	}
}

func TestExplainKnowsWhatItDoesNotKnow(t *testing.T) {
	within(t, agents{{Name: "edge", Mode: resource.Managed}}, func(t *testing.T, r *rig) {
		settle()
		_, err := r.Explain(t.Context(), Object{Kind: string(resource.Application), Name: "none"}, "")
		require.ErrorContains(t, err, "no agent has Application/none")
		_, err = r.Explain(t.Context(), Object{Kind: "Pod", Name: "none"}, "")
		require.ErrorContains(t, err, "bad request")
		_, err = r.Explain(t.Context(), Object{Kind: string(resource.Application), Name: "none"}, "nobody")
		require.ErrorContains(t, err, "not registered")
	})
}
