package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/observe"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// What a store withholds is no failure: nothing is told to be wrong, and nothing is tried
// again before a user says so. What would be done is known all the same.
func TestWithheld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		gate := observe.New(r.spoke.cluster, ledger.InMemory().Set("adopted"))
		r.spoke.store = gate
		for _, name := range []string{"web", "shop"} {
			r.hub.set(name, resource.Spec, `{"n":1}`)
		}
		r.spoke.set("shop", resource.Spec, `{"n":0}`)
		r.start()
		settle(10 * time.Minute)
		st := r.spoke.Status()
		require.NoError(t, st.Err)
		require.Zero(t, st.DeadLetters)
		require.Zero(t, st.Engine.Failed)
		require.Equal(t, 2, st.Engine.Denied)
		require.True(t, st.Engine.InStep)
		plan, whole, err := r.spoke.Plan(t.Context())
		require.NoError(t, err)
		require.True(t, whole)
		require.Len(t, plan, 2)
		require.Equal(t, `{"n":0}`, plan[0].Is.Parts[resource.Spec])
		require.Nil(t, plan[1].Is)
		require.Contains(t, r.hub.part("web", resource.Pending), "only observes")
		known, err := r.spoke.Known(t.Context(), []resource.Key{app("none"), app("web")})
		require.NoError(t, err)
		require.Equal(t, []resource.Key{app("web")}, known)

		require.NoError(t, gate.Adopt(t.Context(), app("web")))
		settle(10 * time.Minute)
		require.Empty(t, r.spoke.part("web", resource.Spec), "nobody has said so")
		require.NoError(t, r.spoke.Again(t.Context(), app("web")))
		settle(time.Minute)
		require.Equal(t, `{"n":1}`, r.spoke.part("web", resource.Spec))
		require.Equal(t, `{"n":0}`, r.spoke.part("shop", resource.Spec))
		require.Empty(t, r.hub.part("web", resource.Pending))

		r.spoke.stop()
		_, _, err = r.spoke.Plan(t.Context())
		require.ErrorContains(t, err, "session: plan: it has ended")
		_, err = r.spoke.Known(t.Context(), nil)
		require.ErrorContains(t, err, "it has ended")
	})
}
