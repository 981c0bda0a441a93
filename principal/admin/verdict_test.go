package admin

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

func meta(finalizers ...string) string {
	return resource.Metadata{Labels: map[string]string{"team": "a"}, Finalizers: finalizers}.Text()
}

const cascade = "resources-finalizer.argocd.argoproj.io"

// In step there is no difference, in either mode, whatever else is on the agent's cluster.
func TestVerifyOfWhatIsInStep(t *testing.T) {
	for _, m := range []resource.Mode{resource.Managed, resource.Autonomous} {
		t.Run(m.String(), func(t *testing.T) {
			within(t, agents{{Name: "one", Mode: m}}, func(t *testing.T, r *rig) {
				one, stop := r.spoke("one", resource.Rules{Mode: m})
				defer stop()
				owner, ns := r.hub, "one"
				if m == resource.Autonomous {
					owner, ns = one, "argocd"
				}
				for i := range 20 {
					k := app(ns, fmt.Sprint("web-", i))
					edit(owner, k, resource.Spec, spec("v1"))
					edit(owner, k, resource.Meta, meta(cascade))
				}
				edit(one, app("elsewhere", "own"), resource.Spec, spec("v1"))
				edit(one, app("argocd", "odd"), resource.Meta, `{"labels":{"argocd-agent.argoproj-labs.io/ignore-sync":"true"}}`)
				for name, by := range map[string]string{"one-plant": "one-p", "one-own": ""} { // names that an agent's might have
					k := resource.Key{Kind: resource.Project, Namespace: "argocd", Name: name}
					r.hub.Edit(k, func(o *resource.Object) {
						o.Parts[resource.Spec], o.Origin = `{"sourceNamespaces":["none"]}`, resource.Origin{UID: by, By: by}
					})
				}
				settle()
				for k := range one.All() {
					edit(one, k, resource.Status, `{"health":{"status":"Healthy"},"resources":[{"group":"argoproj.io","kind":"Application","name":"child","namespace":"argocd"}]}`)
				}
				settle()
				began := time.Now()
				v := r.verdict("one")
				require.Equal(t, "", v.Error)
				require.Empty(t, v.Differences)
				require.Zero(t, time.Since(began), "one look is enough")
				if m == resource.Managed {
					require.Equal(t, 20, v.Objects, "what is the cluster's own is not compared")
				} else {
					require.Equal(t, 21, v.Objects)
				}
			})
		})
	}
}

// Each way in which two sides can differ is told, with its reason.
func TestVerifyTellsEachDifference(t *testing.T) {
	within(t, agents{{Name: "one"}}, func(t *testing.T, r *rig) {
		one, stop := r.spoke("one", resource.Rules{})
		defer stop()
		for _, name := range []string{"equal", "spec", "label", "lost", "dying", "vanishing", "status"} {
			edit(r.hub, app("one", name), resource.Spec, spec("v1"))
			edit(r.hub, app("one", name), resource.Meta, meta(cascade))
		}
		edit(r.hub, app("one", "taken"), resource.Spec, spec("v1"))
		edit(one, app("argocd", "taken"), resource.Spec, spec("v1"))
		settle()
		v := r.verdict("one")
		require.Len(t, v.Differences, 1)
		require.Equal(t, "origin", v.Differences[0].What)
		require.Contains(t, v.Differences[0].Reason, "of the spoke: occupied: an object of this name is there already")

		never, later := fmt.Errorf("quota: %w", backend.ErrRefused), errors.New("out of order")
		r.hub.why.Store(&later)
		one.why.Store(&never)
		edit(r.hub, app("one", "new"), resource.Spec, spec("v1"))
		edit(r.hub, app("one", "spec"), resource.Spec, spec("v2"))
		edit(r.hub, app("one", "label"), resource.Meta, resource.Metadata{Labels: map[string]string{"team": "b"}, Finalizers: []string{cascade}}.Text())
		r.hub.Lose(app("one", "lost"))
		r.hub.Delete(app("one", "dying"))
		one.Hold(app("argocd", "vanishing"))
		one.Delete(app("argocd", "vanishing"))
		edit(one, app("argocd", "status"), resource.Status, `{"health":{"status":"Degraded"}}`)
		settle()
		got := map[string]Difference{}
		for _, d := range r.verdict("one").Differences {
			got[d.Key+": "+d.What] = d
		}
		for what, reason := range map[string]string{
			"Application/new: missing":             "of the spoke: refused: quota",
			"Application/spec: spec":               "of the spoke: refused: quota",
			"Application/label: label":             "of the spoke: refused: quota",
			"Application/lost: extra":              "its removal has not arrived",
			"Application/dying: not deleted":       "of the spoke: refused: quota",
			"Application/vanishing: being deleted": "it is made again once it has vanished",
			"Application/status: status":           "of the hub: failing: out of order",
			"Application/taken: origin":            "of the spoke: occupied",
		} {
			require.Contains(t, got, what)
			require.Contains(t, got[what].Reason, reason, what)
		}
		require.Len(t, got, 8)
		require.Contains(t, got["Application/spec: spec"].Hub, `"v2"`, "it is shown where the texts differ")
		require.Contains(t, got["Application/spec: spec"].Spoke, `"v1"`)
		require.Contains(t, got["Application/spec: spec"].String(), "Application/spec: spec: hub has …")
	})
}

// An agent that runs in another mode than it is registered in takes nothing and says nothing that
// is taken, and nothing of that fails.
func TestAnAgentInAnotherModeIsTold(t *testing.T) {
	within(t, agents{{Name: "edge", Mode: resource.Managed}}, func(t *testing.T, r *rig) {
		_, stop := r.spoke("edge", resource.Rules{Mode: resource.Autonomous})
		defer stop()
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.server.Follow(ctx) }()
		defer func() { end(); <-ended }()
		edit(r.hub, app("edge", "a"), resource.Spec, spec("v1"))
		settle()
		require.Len(t, r.log.FilterMessage("an agent runs in another mode than it is registered in").All(), 1)
		const said = "it runs as autonomous and is registered as managed"
		all, err := r.Agents(t.Context())
		require.NoError(t, err)
		require.Contains(t, all.Agents[0].Spoke.Error, said)
		v := r.verdict("edge")
		require.Len(t, v.Differences, 1)
		require.Contains(t, v.Differences[0].Reason, said)
		e := r.told()
		require.Equal(t, "link mode", causes(e)[0])
		require.Contains(t, e.Behind[0].Text, said)
	})
}

// What is on its way is no difference; what never arrives is one, also if it changes.
func TestVerifyWaitsForWhatIsOnItsWay(t *testing.T) {
	within(t, agents{{Name: "one"}}, func(t *testing.T, r *rig) {
		one, stop := r.spoke("one", resource.Rules{})
		defer stop()
		edit(r.hub, app("one", "web"), resource.Spec, spec("v0"))
		settle()
		r.net.Set("one", memlink.Weather{Delay: time.Second})
		revisions := func() (stop func()) {
			end, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				for i := 1; ; i++ {
					select {
					case <-time.After(1500 * time.Millisecond):
						edit(r.hub, app("one", "web"), resource.Spec, spec(fmt.Sprint("v", i)))
					case <-end:
						return
					}
				}
			}()
			return func() { close(end); <-ended }
		}
		rest := revisions()
		v := r.verdict("one")
		require.Equal(t, "", v.Error)
		require.Empty(t, v.Differences)

		later := errors.New("out of order")
		one.why.Store(&later)
		<-time.After(5 * time.Second)
		v = r.verdict("one")
		rest()
		require.Len(t, v.Differences, 1)
		require.Equal(t, "it changes all the time", v.Differences[0].Reason)
	})
}

func TestVerifyOfAnAgentThatIsAway(t *testing.T) {
	within(t, agents{{Name: "one"}, {Name: "two"}}, func(t *testing.T, r *rig) {
		_, stop := r.spoke("one", resource.Rules{})
		defer stop()
		settle()
		require.Equal(t, "agent two is not there, and was not since the principal started: it can be asked once it has connected", r.verdict("two").Error)
		require.Empty(t, r.verdict("one").Error)
		r.net.Set("one", memlink.Weather{Line: memlink.Cut})
		settle()
		one, err := r.Agent(t.Context(), "one")
		require.NoError(t, err)
		away := "agent one is away since " + one.Since.UTC().Format(time.RFC3339) + ": it can be asked once it is back"
		require.Equal(t, away, r.verdict("one").Error)
		_, err = r.Plan(t.Context(), "one")
		require.EqualError(t, err, away)
		_, err = r.Plan(t.Context(), "nope")
		require.EqualError(t, err, `agent "nope" is not registered: argocd-agentctl agent list shows who is`)
		_, err = r.Letters(t.Context(), "nope")
		require.EqualError(t, err, `agent "nope" is not registered: argocd-agentctl agent list shows who is`)
		all, err := r.Letters(t.Context(), "")
		require.NoError(t, err)
		require.Len(t, all.Unread, 2)
		require.Equal(t, away, all.Unread["one"])
	})
}

// More objects than are asked for one by one differ: those that are not have what stands
// for their parts.
func TestVerifyOfManyDifferences(t *testing.T) {
	within(t, agents{{Name: "one"}}, func(t *testing.T, r *rig) {
		one, stop := r.spoke("one", resource.Rules{})
		defer stop()
		for i := range 120 {
			edit(r.hub, app("one", fmt.Sprint("web-", i)), resource.Spec, spec("v1"))
		}
		settle()
		later := errors.New("out of order")
		one.why.Store(&later)
		for i := range 120 {
			edit(r.hub, app("one", fmt.Sprint("web-", i)), resource.Spec, spec("v2"))
		}
		settle()
		v := r.verdict("one")
		require.Len(t, v.Differences, 120)
		require.Equal(t, 120, v.Objects)
		require.Contains(t, v.Differences[0].Hub, `"v2"`)
		require.Contains(t, v.Differences[119].Hub, "bytes with digest")
	})
}
