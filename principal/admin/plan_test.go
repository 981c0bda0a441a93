package admin

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// From the hub a user sees what an agent that observes would do, and has it done for one
// object, and for that no more.
func TestPlanAndAdoptFromTheHub(t *testing.T) {
	within(t, agents{{Name: "one"}, {Name: "away"}}, func(t *testing.T, r *rig) {
		spoke := newStubborn("one")
		edit(spoke, app("argocd", "web"), resource.Spec, spec("v0"))
		a, err := agent.New(agent.Config{
			Name: "one", Namespace: "argocd", Dialer: r.net.Agent("one", presence()), Store: spoke, Rules: resource.Rules{Adopt: true},
			Tick: time.Second, Adopted: ledger.InMemory().Set("adopted"), Log: zap.NewNop(),
		})
		require.NoError(t, err)
		defer r.background(a.Run)()
		edit(r.hub, app("one", "web"), resource.Spec, spec("v1"))
		settle()

		p, err := r.Plan(t.Context(), "one")
		require.NoError(t, err)
		require.Equal(t, "one", p.Agent)
		require.True(t, p.Observing && p.Whole)
		require.Len(t, p.Steps, 1)
		require.Equal(t, inquiry.TakeOver, p.Steps[0].Action)
		require.Contains(t, p.Steps[0].Diff, "+    targetRevision: v1\n")
		v := r.verdict("one")
		require.NotEmpty(t, v.Differences)
		require.Equal(t, "the agent only observes, and withholds 1 changes: argocd-agentctl plan one", v.Differences[0].Reason)
		st, err := r.Agent(t.Context(), "one")
		require.NoError(t, err)
		require.True(t, st.Spoke.Observing)
		require.Equal(t, 1, st.Spoke.Withheld)

		web := []Object{{Kind: "Application", Namespace: "one", Name: "web"}}
		done, err := r.Adopt(t.Context(), "one", Adoption{Objects: web})
		require.NoError(t, err)
		require.Equal(t, inquiry.Adopted{Done: []string{"Application/web"}, Pending: []string{}}, done)
		require.Equal(t, 1, r.log.FilterMessage("adoption is decided").Len())
		settle()
		require.Empty(t, r.verdict("one").Differences)
		_, err = r.Adopt(t.Context(), "one", Adoption{Objects: web, Undo: true})
		require.NoError(t, err)
		o, _ := spoke.Get(app("argocd", "web"))
		require.Equal(t, spec("v0"), o.Parts[resource.Spec], "as it was before")
		require.Zero(t, o.Origin)

		for name, code := range map[string]int{"away": http.StatusServiceUnavailable, "nobody": http.StatusNotFound} {
			_, err := r.Plan(t.Context(), name)
			var failed *Failed
			require.ErrorAs(t, err, &failed)
			require.Equal(t, code, failed.Code, err)
			_, err = r.Adopt(t.Context(), name, Adoption{All: true})
			require.ErrorAs(t, err, &failed)
			require.Equal(t, code, failed.Code, err)
		}
		_, err = r.Adopt(t.Context(), "one", Adoption{Objects: []Object{{Kind: "Application", Name: "none"}}})
		require.ErrorContains(t, err, "the control plane has no such object for this agent")
	})
}
