package admin

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/journal"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"

	"go.uber.org/zap"
)

// served is an agent that is there, and of which nothing is wrong.
func served() fact {
	f := fact{spoke: &half{}, hubOwns: true}
	f.agent.Name, f.agent.State, f.agent.Session.Connected = "edge", principal.Serving, true
	return f
}

// TestEveryRuleSaysItsReason has one thing wrong at a time; those that take a cluster to go wrong
// are played in TestExplainSaysWhoIsBehind, too.
func TestEveryRuleSaysItsReason(t *testing.T) {
	full := errors.New("no space left on device")
	cases := map[string]func(f *fact){
		"link session":        func(f *fact) { f.agent.State, f.agent.Err = principal.Failing, full },
		"link refused":        func(f *fact) { f.agent.Session.Refusal = errors.New("edge speaks 1 to 2") },
		"link away":           func(f *fact) { f.agent.Session.Connected = false },
		"link mode":           func(f *fact) { f.spoke.mode = "autonomous" },
		"link store":          func(f *fact) { f.agent.Troubles = []transport.Trouble{{What: "the log is full", Err: full}} },
		"link error":          func(f *fact) { f.agent.Session.Err = full },
		"hub excluded":        func(f *fact) { f.hub.state.Excluded = true },
		"spoke unreadable":    func(f *fact) { f.spoke.state.Unreadable = "malformed event" },
		"hub unsent":          func(f *fact) { f.hub.state.Unfit = "too large" },
		"hub log":             func(f *fact) { f.hub.state.Lost = true },
		"spoke observes":      func(f *fact) { f.spoke.state.Withheld = true },
		"spoke policy":        func(f *fact) { f.spoke.state.Taken = "it is there already" },
		"spoke refused-write": func(f *fact) { f.spoke.state.Refused = "forbidden" },
		"spoke failing":       func(f *fact) { f.spoke.state.Tries, f.spoke.state.Retry = 2, time.Now() },
		"spoke held":          func(f *fact) { f.spoke.state.Held = true },
		"spoke order":         func(f *fact) { f.spoke.state.Awaits = []string{"AppProject/web"} },
		"hub deletion":        func(f *fact) { f.hub.state.Deleting = true },
		"spoke deleting":      func(f *fact) { f.spoke.state.Deleting = true },
		"spoke operation":     func(f *fact) { f.spoke.state.Asked, f.spoke.state.Operation = true, true },
		"spoke writing":       func(f *fact) { f.spoke.state.Writing = true },
		"hub fault":           func(f *fact) { f.spoke, f.hub.state.Fault = nil, "forbidden" },
		"hub pending":         func(f *fact) { f.hub.state.Pending = "the agent is away" },
		"hub dead-letter": func(f *fact) {
			f.letters = []Letter{{Agent: "edge", Side: HubSide, Letter: ledger.Letter{ID: "1", Cause: ledger.Unreadable, Reason: "malformed"}}}
		},
	}
	require.Empty(t, behind(served()))
	seen := map[string]bool{}
	for want, wrong := range cases {
		f := served()
		wrong(&f)
		all := behind(f)
		require.Len(t, all, 1, "%s: %+v", want, all)
		require.Equal(t, want, all[0].Where+" "+all[0].What)
		require.NotEmpty(t, all[0].Text)
		seen[all[0].What] = true
	}
	for _, r := range linkRules {
		require.True(t, seen[r.what], r.what)
	}
	for _, r := range sideRules {
		require.True(t, seen[r.what], r.what)
	}
}

// TestAnAutonomousDeletionWaitsForNoCopy has an original on the spoke that Argo CD there keeps.
func TestAnAutonomousDeletionWaitsForNoCopy(t *testing.T) {
	f := served()
	f.hubOwns, f.spoke.state.Deleting = false, true
	require.Contains(t, behind(f)[0].Text, "its finalizers are Argo CD's there")
	f.spoke.state.Deleting, f.hub.state.Deleting = false, true
	require.Contains(t, behind(f)[0].Text, "metadata.finalizers")
}

func TestTwoClocksAreComparedOpenly(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	of := journal.Of{Digest: "abc", Phase: "live"}
	hub := half{page: journal.Page{Said: []journal.Said{{Of: of, Seen: at(0), Said: at(0), Sent: at(1)}}}}
	spoke := half{page: journal.Page{Heard: []journal.Heard{{Of: of, Heard: at(-3000), Began: at(-2999), Ended: at(-2998), End: journal.Done}}}}

	ahead := spoke.shift(-3005 * time.Millisecond)
	all := passages(HubSide, &hub, &ahead)
	count(all)
	require.Len(t, all, 1)
	require.InDelta(t, 0.005, all[0].Come.After, 1e-9)
	require.InDelta(t, 0.007, all[0].Done.After, 1e-9)
	require.Equal(t, at(-3000), spoke.page.Heard[0].Heard, "what was told stays as it is")

	near := spoke.shift(-2999 * time.Millisecond)
	all = passages(HubSide, &hub, &near)
	count(all)
	require.Zero(t, all[0].Come.After)
	require.Contains(t, all[0].Come.Text, "two clocks")
}

func TestChangesOfEarlierProcessesAreTold(t *testing.T) {
	of := func(d string) journal.Of { return journal.Of{Digest: d, Phase: "live"} }
	began := time.Now()
	hub := half{state: inquiry.State{Said: "c"}, page: journal.Page{Said: []journal.Said{{Of: of("b"), Seen: began}, {Of: of("c"), Seen: began, Sent: began}}}}
	spoke := half{state: inquiry.State{Told: "c", Settled: true}, page: journal.Page{Heard: []journal.Heard{
		{Of: of("a"), Heard: began.Add(-1), End: journal.Done, Ended: began}, {Of: of("c"), Heard: began},
	}}}
	states := func(p Passage) []string {
		return []string{p.Digest, p.Seen.State, p.Logged.State, p.Come.State, p.Done.State}
	}
	all := passages(HubSide, &hub, &spoke)
	require.Len(t, all, 3)
	require.Equal(t, []string{"a", StageUnknown, StageUnknown, StageDone, StageDone}, states(all[0]))
	require.Equal(t, []string{"b", StageDone, StageWaits, StageSkipped, StageSkipped}, states(all[1]))
	require.Equal(t, []string{"c", StageDone, StageDone, StageDone, StageDone}, states(all[2]))

	hub.page, spoke.page = journal.Page{}, journal.Page{}
	all = passages(HubSide, &hub, &spoke)
	require.Len(t, all, 1)
	require.Equal(t, []string{"c", StageUnknown, StageDone, StageDone, StageDone}, states(all[0]))
	all = passages(HubSide, &hub, nil)
	require.Equal(t, []string{"c", StageUnknown, StageDone, StageUnknown, StageUnknown}, states(all[0]))
}

// none is an observe.List of nothing.
type none struct{}

func (none) Has(string) bool             { return false }
func (none) Note(string) string          { return "" }
func (none) All() []string               { return nil }
func (none) Add(map[string]string) error { return nil }
func (none) Remove(...string) error      { return nil }

func TestExplainSaysThatTheAgentOnlyObserves(t *testing.T) {
	within(t, agents{{Name: "edge", Mode: resource.Managed}}, func(t *testing.T, r *rig) {
		a, err := agent.New(agent.Config{
			Name: "edge", Namespace: "argocd", Dialer: r.net.Agent("edge", presence()), Store: newStubborn("edge"),
			Rules: resource.Rules{Mode: resource.Managed, Adopt: true}, Tick: time.Second, Adopted: none{}, Log: zap.NewNop(),
		})
		require.NoError(t, err)
		defer r.background(a.Run)()
		edit(r.hub, app("edge", "a"), resource.Spec, spec("v1"))
		pass(time.Minute)
		require.Contains(t, causes(r.told()), "spoke observes")
	})
}

func TestExplainSaysWhatADeletionWaitsFor(t *testing.T) {
	within(t, agents{{Name: "edge", Mode: resource.Managed}}, func(t *testing.T, r *rig) {
		spoke, stop := r.spoke("edge", resource.Rules{Mode: resource.Managed, Adopt: true})
		defer stop()
		project := resource.Key{Kind: resource.Project, Namespace: "argocd", Name: "a"}
		edit(r.hub, project, resource.Spec, `{"destinations":[{"name":"*","namespace":"*","server":"*"}],"sourceNamespaces":["*"]}`)
		edit(r.hub, app("edge", "a"), resource.Meta, `{"finalizers":["resources-finalizer.argocd.argoproj.io"]}`)
		edit(r.hub, app("edge", "a"), resource.Spec, spec("v1"))
		pass(time.Minute)
		r.hub.Delete(app("edge", "a"))
		r.hub.Delete(project)
		pass(10 * time.Second)
		require.Equal(t, []string{"hub deletion", "spoke deleting"}, causes(r.told()), "Argo CD on the spoke has not done its part")
		all, err := r.Explain(t.Context(), Object{Kind: string(resource.Project), Name: "a"}, "edge")
		require.NoError(t, err)
		require.Len(t, all.Objects, 1)
		require.Equal(t, []string{"spoke order"}, causes(all.Objects[0]))
		require.Contains(t, all.Objects[0].Behind[0].Text, "Application/a")
		edit(spoke, app("argocd", "a"), resource.Meta, `{}`)
		pass(time.Minute)
		e := r.told()
		require.Empty(t, e.Behind, "what is gone from both sides waits for nothing")
		for _, c := range e.Changes {
			require.Contains(t, []string{StageDone, StageSkipped}, c.Done.State, "%+v", c)
			require.Equal(t, c.From == HubSide && c.Phase == "live", c.Reconciled != nil, "%+v", c)
		}
	})
}

// TestWhatIsForgottenIsNotMadeUp has a spoke that remembers as much as it can.
func TestWhatIsForgottenIsNotMadeUp(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	change := func(applied int) []Passage {
		return []Passage{{Phase: "live", Done: Stage{State: StageDone, At: at(applied)}}}
	}
	var hub, spoke half
	for i := range journal.Kept {
		of := journal.Of{Digest: string(rune('a' + i)), Phase: "live", Reconciled: at(10 + i).Format(time.RFC3339)}
		spoke.page.Said = append(spoke.page.Said, journal.Said{Of: of, Seen: at(10 + i)})
		hub.page.Heard = append(hub.page.Heard, journal.Heard{Of: of, Heard: at(10 + i), Ended: at(10 + i), End: journal.Done})
	}
	hub.page.Heard[2].End = journal.Overtaken
	cases := map[string]struct {
		applied          int
		looked, returned Stage
	}{
		"others may have been before": {5, Stage{State: StageUnknown}, Stage{State: StageUnknown}},
		"it was looked at since":      {11, Stage{State: StageDone, At: at(11)}, Stage{State: StageDone, At: at(11)}},
		"the status was overtaken":    {12, Stage{State: StageDone, At: at(12)}, Stage{State: StageDone, At: at(13)}},
		"it was not":                  {20, Stage{State: StageWaits}, Stage{State: StageWaits}},
	}
	for name, c := range cases {
		all := change(c.applied)
		reconcile(all, &hub, &spoke)
		require.Equal(t, c.looked, *all[0].Reconciled, name)
		require.Equal(t, c.returned, *all[0].Back, name)
	}
}
