package principal

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/observe"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// lone calls f with a yard of three agents, in which a has an Application that takes with it
// what it has deployed.
func lone(t *testing.T, f func(*yard, resource.Key)) {
	synctest.Test(t, func(t *testing.T) {
		y, k := newYard(t, memlink.Weather{}, 1, "a", "b", "c"), app("team-a", "one")
		y.aimAt(k, "a")
		edit(y.hub, k, resource.Meta, cascades)
		y.settle()
		require.Equal(t, "a", y.where(k))
		f(y, k)
	})
}

// What a principal has lost is as lost after it was started again: that it has told an agent
// meanwhile that nothing is known is no word of what that agent has.
func TestAPrincipalThatHasLostItsStoresAndIsRestarted(t *testing.T) {
	for _, store := range [][]memlink.Store{{memlink.HubLog, memlink.HubCopy}, {memlink.HubLog}} {
		lone(t, func(y *yard, k resource.Key) {
			y.line("a", false)
			y.line("b", false)
			y.stop()
			for _, agent := range []string{"a", "b", "c"} {
				for _, s := range store {
					y.net.Lose(agent, s)
				}
			}
			y.aimAt(k, "b")
			y.start()
			for range 2 {
				y.settle()
				y.restart(time.Second)
			}
			y.line("b", true)
			y.settle()
			require.Equal(t, "a", y.where(k), "it is away, and has it")
			y.line("a", true)
			y.settle()
			require.Equal(t, "b", y.where(k))
			require.Empty(t, y.part(k, resource.Pending))
		})
	}
}

// An agent that is missing from one set of the registry, or changes its mode, has what it has.
func TestAnAgentThatIsNotManagedForAWhileIsWaitedFor(t *testing.T) {
	for text, set := range map[string][]backend.Agent{
		unregistered: {{Name: "b"}, {Name: "c"}},
		autonomous:   {{Name: "a", Mode: resource.Autonomous}, {Name: "b"}, {Name: "c"}},
	} {
		lone(t, func(y *yard, k resource.Key) {
			y.line("a", false)
			y.aimAt(k, "b")
			y.settle()
			y.allot.enrol(set, nil)
			y.settle()
			require.Equal(t, "a", y.where(k))
			require.Equal(t, "agent a may have it still, and is "+text, y.part(k, resource.Pending))
			y.allot.enrol(y.roll, nil)
			y.settle()
			require.Equal(t, "a", y.where(k))
			y.restart(time.Second)
			y.line("a", true)
			y.settle()
			require.Equal(t, "b", y.where(k))
		})
	}
}

// A destination that names no agent moves nothing and deletes nothing, and what is deleted
// goes where it is.
func TestAnApplicationThatIsAimedAtNoAgentStays(t *testing.T) {
	lone(t, func(y *yard, k resource.Key) {
		for _, to := range []string{
			`{"name":"nobody"}`, `{"name":"in-cluster"}`, `{}`, `{"server":"https://kubernetes.default.svc"}`, `{"server":"https://nobody?agentName=nobody"}`,
		} {
			edit(y.hub, k, resource.Spec, `{"destination":`+to+`}`)
			y.settle()
			require.Equal(t, "a", y.where(k), to)
			require.Equal(t, "its destination names no managed agent: agent a keeps it as it is until it names one, or it is deleted", y.part(k, resource.Pending))
			y.restart(time.Second)
		}
		edit(y.hub, k, resource.Spec, `{"destination":{"server":"https://principal:9090?agentName=a"}}`)
		y.settle()
		require.Empty(t, y.part(k, resource.Pending), "that is a's")
		edit(y.hub, k, resource.Spec, `{"destination":{"name":"in-cluster"}}`)
		y.hub.Delete(k)
		y.settle()
		_, is := y.hub.Get(k)
		require.False(t, is)
		require.Empty(t, y.spokes["a"].store.All())
	})
}

// Of a deletion that nobody will carry out it is said that this is so.
func TestAnApplicationThatIsDeletedWhereNobodyHasIt(t *testing.T) {
	lone(t, func(y *yard, _ resource.Key) {
		lost := app("team-a", "lost")
		edit(y.hub, lost, resource.Meta, cascades)
		y.aimAt(lost, "nobody")
		y.hub.Delete(lost)
		y.settle()
		require.Contains(t, y.part(lost, resource.Pending), "no agent has it")
	})
}

// A copy that the spoke's user has excluded is not deleted there, and so the Application is
// given to nobody else until it is.
func TestACopyThatItsSpokeHasExcludedDoesNotMove(t *testing.T) {
	lone(t, func(y *yard, k resource.Key) {
		label := func(value string) {
			m := resource.ParseMetadata(cascades)
			m.Labels = map[string]string{backend.IgnoreLabel: value}
			edit(y.spokes["a"].store, k, resource.Meta, m.Text())
		}
		y.leave(y.spokes["a"])
		y.real(y.spokes["a"], nil, "team-*")
		label("true")
		y.settle()
		y.aimAt(k, "b")
		for range 2 {
			y.settle()
			require.Equal(t, "a", y.where(k))
			require.Equal(t, "agent a keeps its own copy: it is excluded there", y.part(k, resource.Pending))
			y.restart(time.Second)
		}
		label("false")
		y.settle()
		require.Equal(t, "b", y.where(k))
		require.Empty(t, y.part(k, resource.Pending))
	})
}

// A copy in a namespace that its agent may not change any more is neither moved nor deleted, and
// the Application says why until it is.
func TestACopyThatItsAgentMayNotDeleteSaysSo(t *testing.T) {
	lone(t, func(y *yard, k resource.Key) {
		const why = "namespace team-a is not among the agent's --allowed-namespaces"
		y.leave(y.spokes["a"])
		y.real(y.spokes["a"], nil, "team-b")
		y.aimAt(k, "b")
		y.settle()
		require.Equal(t, "a", y.where(k))
		require.Equal(t, "waiting for agent a to give it up", y.part(k, resource.Pending))
		require.Contains(t, y.part(k, resource.Fault), why)
		y.aimAt(k, "a")
		y.hub.Delete(k)
		y.settle()
		require.Equal(t, "a", y.where(k))
		require.Contains(t, y.part(k, resource.Fault), why)
		y.leave(y.spokes["a"])
		y.real(y.spokes["a"], nil, "team-*")
		y.settle()
		_, is := y.hub.Get(k)
		require.False(t, is)
		require.Empty(t, y.spokes["a"].store.All())
	})
}

// An Application whose destination is a slip is not compared with the copy that stays, nor
// missed by anybody.
func TestASlipIsNoDifference(t *testing.T) {
	lone(t, func(y *yard, k resource.Key) {
		seen := func(agent string) []resource.Object {
			objects, err := y.Objects(y.t.Context(), agent)
			require.NoError(t, err)
			return objects
		}
		require.False(t, seen("a")[0].Excluded)
		y.aimAt(k, "nobody")
		y.settle()
		require.Equal(t, "a", y.where(k))
		require.True(t, seen("a")[0].Excluded)
		require.Empty(t, seen("b"))
		y.aimAt(k, "b")
		require.NotEmpty(t, seen("b"))
	})
}

// An agent that could not make a copy yet, and has said so, may make it once it can: a principal
// that has lost its stores waits for it.
func TestAnAgentThatHasOnlySaidWhyNotIsWaitedFor(t *testing.T) {
	lone(t, func(y *yard, _ resource.Key) {
		k, a := app("team-a", "new"), y.spokes["a"]
		y.leave(a)
		y.real(a, nil, "team-b")
		y.aimAt(k, "a")
		y.settle()
		require.Contains(t, y.part(k, resource.Fault), "not among")
		y.line("a", false)
		y.leave(a)
		y.stop()
		for _, agent := range []string{"a", "b", "c"} {
			y.net.Lose(agent, memlink.HubLog)
			y.net.Lose(agent, memlink.HubCopy)
		}
		y.real(a, nil, "team-*")
		y.aimAt(k, "b")
		y.start()
		y.settle()
		require.Equal(t, "a", y.where(k))
		y.line("a", true)
		y.settle()
		require.Equal(t, "b", y.where(k))
	})
}

// A deletion is forced where the Application is, and not where it is aimed at.
func TestADeletionIsForcedForTheAgentThatHasTheApplication(t *testing.T) {
	lone(t, func(y *yard, k resource.Key) {
		y.line("a", false)
		y.line("b", false)
		y.settle()
		y.aimAt(k, "b")
		y.settle()
		y.hub.Delete(k)
		y.settle()
		none, err := y.Waiting(y.t.Context(), "b")
		require.NoError(t, err)
		require.Empty(t, none)
		waiting, err := y.Waiting(y.t.Context(), "a")
		require.NoError(t, err)
		require.Len(t, waiting, 1)
		_, err = y.Release(y.t.Context(), "b", engine.HeldDigest(waiting), "scrapped")
		require.ErrorIs(t, err, ErrNothing)
		_, err = y.Release(y.t.Context(), "a", engine.HeldDigest(waiting), "scrapped")
		require.NoError(t, err)
		_, is := y.hub.Get(k)
		require.False(t, is)
	})
}

// What an agent that observes was never to write, or is to write no more, goes on running there:
// the Application is given to nobody else.
func TestWhatAnObservingAgentLeavesAloneDoesNotMove(t *testing.T) {
	for name, undone := range map[string]bool{"never adopted": false, "adopted no more": true} {
		t.Run(name, func(t *testing.T) {
			lone(t, func(y *yard, _ resource.Key) {
				k, a := app("team-a", "live"), y.spokes["a"]
				y.leave(a)
				adopted := ledger.InMemory().Set("adopted")
				a.store.Edit(k, func(o *resource.Object) { o.Parts[resource.Spec] = `{"live":true}` })
				if undone {
					require.NoError(y.t, observe.New(a.store, adopted).Adopt(y.t.Context(), k))
				}
				y.real(a, adopted, "team-*")
				y.aimAt(k, "a")
				y.settle()
				if undone {
					require.Equal(y.t, "a", y.where(k))
					_, err := inquiry.NewClient(func(ctx context.Context) (net.Conn, error) {
						return y.Open(ctx, "a", inquiry.Service)
					}).Adopt(y.t.Context(), inquiry.Adoption{Keys: []resource.Key{k}, Undo: true})
					require.NoError(y.t, err)
					y.settle()
				}
				y.aimAt(k, "b")
				y.settle()
				y.settle()
				o, _ := a.store.Get(k)
				require.Equal(y.t, `{"live":true}`, o.Parts[resource.Spec])
				require.NotContains(y.t, y.spokes["b"].store.All(), k)
				require.Contains(y.t, y.part(k, resource.Pending), "agent a keeps its own copy")
			})
		})
	}
}

// real starts an agent as it is, which sees what is excluded, in place of its session alone.
func (y *yard) real(h *haven, adopted observe.List, allowed ...string) {
	a, err := agent.New(agent.Config{
		Name: h.name, Namespace: "argocd", Destination: true, Allowed: allowed, Dialer: y.net.Agent(h.name, presence()),
		Store: h.store, Rules: resource.Rules{Adopt: true}, Adopted: adopted, Tick: time.Second, Log: zap.NewNop(),
	})
	require.NoError(y.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	h.stop = func() { cancel(); <-ended }
}
