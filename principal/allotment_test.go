package principal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

func TestAnApplicationIsWhereItIsAimedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, memlink.Weather{}, 1, "a", "b")
		y.aimAt(app("argocd", "one"), "a")
		y.aimAt(app("team-a", "one"), "b")
		y.aimAt(app("elsewhere", "one"), "b")
		y.aimAt(app("team-a", "own"), "in-cluster")
		y.aimAt(app("team-a", "lost"), "nobody")
		y.settle()
		require.Len(t, y.spokes["a"].store.All(), 1)
		require.Len(t, y.spokes["b"].store.All(), 1)
		require.Contains(t, y.spokes["a"].store.All(), app("", "one"))
		require.Contains(t, y.spokes["b"].store.All(), app("team-a", "one"))
		require.Equal(t, `{"health":{"status":"Healthy"}}`, y.part(app("team-a", "one"), resource.Status))
		require.Empty(t, y.part(app("team-a", "own"), resource.Pending))
		require.Equal(t, "no managed agent is called nobody", y.part(app("team-a", "lost"), resource.Pending))
		require.Equal(t, "namespace elsewhere is not among the principal's --allowed-namespaces", y.part(app("elsewhere", "one"), resource.Pending))

		objects, err := y.Objects(t.Context(), "b")
		require.NoError(t, err)
		require.Len(t, objects, 1)
		require.Equal(t, app("team-a", "one"), objects[0].Key)

		y.aimAt(app("team-a", "lost"), "a")
		y.settle()
		require.Equal(t, "a", y.where(app("team-a", "lost")))
		require.Empty(t, y.part(app("team-a", "lost"), resource.Pending))
	})
}

// Without Argo CD's finalizer nothing waits for what was deployed, but the second agent waits
// for the first all the same.
func TestAMoveWaitsForAnAgentThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, memlink.Weather{}, 1, "a", "b", "c")
		plain, cascading := app("team-a", "plain"), app("team-a", "cascading")
		y.aimAt(plain, "a")
		y.aimAt(cascading, "a")
		edit(y.hub, cascading, resource.Meta, cascades)
		y.settle()
		y.line("a", false)
		for _, k := range []resource.Key{plain, cascading} {
			y.aimAt(k, "b")
			y.settle()
			require.Equal(t, "a", y.where(k))
			require.Equal(t, "waiting for agent a to give it up", y.part(k, resource.Pending))
			y.restart(time.Second)
			y.aimAt(k, "c")
		}
		<-time.After(20 * time.Minute)
		require.Equal(t, "a", y.where(plain))
		y.line("a", true)
		y.settle()
		for _, k := range []resource.Key{plain, cascading} {
			require.Equal(t, "c", y.where(k))
			require.Empty(t, y.part(k, resource.Pending))
		}
		require.Equal(t, cascades, y.part(cascading, resource.Meta), "the hub's has its finalizer still")
	})
}

// An agent that is registered no more is not waited for.
func TestAnAgentThatHasLeftIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, memlink.Weather{}, 1, "a", "b")
		k := app("team-a", "one")
		y.aimAt(k, "a")
		y.settle()
		y.line("a", false)
		y.aimAt(k, "b")
		y.settle()
		require.Equal(t, "a", y.where(k))
		y.leave(y.spokes["a"])
		y.spokes["a"].store.Lose(k) // its cluster is gone
		y.roll = []backend.Agent{{Name: "b"}}
		y.restart(time.Second)
		y.settle()
		require.Equal(t, "b", y.where(k))
	})
}

// What the principal has kept is lost while an agent is away: what may be there waits for it,
// what certainly is not does not wait.
func TestAPrincipalThatHasLostItsStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, memlink.Weather{}, 1, "a", "b", "c")
		moved, others, fresh := app("team-a", "moved"), app("team-a", "others"), app("team-a", "fresh")
		y.aimAt(moved, "a")
		y.aimAt(others, "b")
		y.settle()
		y.line("a", false)
		y.stop()
		for _, agent := range []string{"a", "b", "c"} {
			y.net.Lose(agent, memlink.HubLog)
			y.net.Lose(agent, memlink.HubCopy)
		}
		y.aimAt(moved, "b")
		y.start()
		y.aimAt(fresh, "c")
		y.settle()
		require.Equal(t, "a", y.where(moved))
		require.Equal(t, "it is not known yet whether agent a has it", y.part(moved, resource.Pending))
		require.Equal(t, "b", y.where(others), "it is known where that is")
		require.Equal(t, "c", y.where(fresh), "it was nowhere before")
		y.aimAt(others, "c")
		y.settle()
		require.Equal(t, "c", y.where(others))
		y.restart(time.Second)
		y.settle()
		require.Equal(t, "a", y.where(moved))
		y.line("a", true)
		y.settle()
		require.Equal(t, "b", y.where(moved))
	})
}

// An object that is excluded is not deleted, wherever it is aimed at.
func TestAnExcludedApplicationDoesNotMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, memlink.Weather{}, 1, "a", "b")
		k := app("team-a", "one")
		label := func(value string) {
			edit(y.hub, k, resource.Meta, resource.Metadata{Labels: map[string]string{backend.IgnoreLabel: value}}.Text())
		}
		y.aimAt(k, "a")
		y.settle()
		label("true")
		y.aimAt(k, "b")
		y.settle()
		y.restart(time.Second)
		y.settle()
		require.Equal(t, "a", y.where(k))
		label("false")
		y.settle()
		require.Equal(t, "b", y.where(k))
	})
}

// Whose an Application may be is not known before the registry is.
func TestNothingIsSaidBeforeTheRegistryIsKnown(t *testing.T) {
	a := newAllotment(memstore.New(memstore.Config{}), "argocd", nil, ledger.InMemory().Set("met"), zap.NewNop())
	o := resource.Object{Key: app("argocd", "one"), UID: "one"}
	o.Parts[resource.Spec] = `{"destination":{"name":"nobody"}}`
	a.put(o)
	for range 3 {
		require.Empty(t, a.unsaid())
	}
	a.enrol([]backend.Agent{{Name: "nobody", Mode: resource.Autonomous}}, nil)
	require.Empty(t, a.unsaid())
	a.enrol(nil, nil)
	a.unsaid()
	require.Len(t, a.unsaid(), 1)
}

// Of an agent that has been heard as a whole it is known what it does not have, also of an
// Application that waits for nobody.
func TestAnAgentThatIsMetIsNotDoubtedAnyMore(t *testing.T) {
	a := newAllotment(memstore.New(memstore.Config{}), "argocd", nil, ledger.InMemory().Set("met"), zap.NewNop())
	a.enrol([]backend.Agent{{Name: "a"}}, nil)
	o := resource.Object{Key: app("argocd", "one"), UID: "one"}
	a.put(o)
	a.begun()
	parkedOnce := map[resource.Key]engine.Held{app("", "one"): {UID: "one", Phase: engine.Excluded}}
	require.NoError(t, a.open(t.Context(), Placement{Agent: "a", Namespace: "argocd", Destination: true}, engine.Opened{Holds: parkedOnce}))
	require.Equal(t, map[string]verdict{"a": parked}, a.shown[o.Key])
	a.meet("a", "epoch", true)
	require.Empty(t, a.shown[o.Key])
}
