package engine_test

import (
	"testing"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// together returns a world in which the agent answers, and one Application is in step.
func together(t *testing.T, k linkKind) *world {
	w := fleet(t, k, 1)
	w.node[0].step(engine.Presence{Peer: true})
	return w
}

// mark has an object of one side refreshed, as argocd does.
func (w *world) mark(n *node, mark string) {
	n.change(app(0), func(o *resource.Object) {
		if n.side == resource.Principal {
			w.wishes[o.Key] = &wish{of: w.original(n, *o), before: map[string]int{}}
			for uid, times := range w.fresh {
				w.wishes[o.Key].before[uid] = times
			}
		}
		o.Parts[resource.RefreshMark] = mark
	})
}

// The mark on the hub goes with the status that it was for, and not before.
func TestRefreshEndsWithItsStatus(t *testing.T) {
	for _, mark := range []string{resource.RefreshNormal, resource.RefreshHard} {
		for _, k := range []linkKind{durable, volatile} {
			w := together(t, k)
			w.mark(w.node[0], mark)
			w.quiet()
			for _, n := range w.node {
				if got := n.store[app(0)].Parts[resource.RefreshMark]; got != mark {
					t.Fatalf("%v has %q", n.side, got)
				}
			}
			w.settle(4)
			w.expect(t)
			if s := statusOf(w.node[0].store[app(0)].Parts[resource.Status]); s.Refreshed != 1 {
				t.Fatalf("%+v", s)
			}
		}
	}
}

// A mark that somebody on the spoke rubs out fulfils nothing.
func TestRefreshThatIsRubbedOut(t *testing.T) {
	w := together(t, durable)
	w.mark(w.node[0], resource.RefreshNormal)
	w.quiet()
	w.node[1].change(app(0), func(o *resource.Object) { o.Parts[resource.RefreshMark] = "" })
	w.quiet()
	if got := w.node[0].store[app(0)].Parts[resource.RefreshMark]; got == "" {
		t.Fatal("the hub takes it for done")
	}
	w.node[1].change(app(0), func(o *resource.Object) { o.Parts[resource.Status] = w.status(*o, "later") })
	w.quiet()
	if got := w.node[0].store[app(0)].Parts[resource.RefreshMark]; got != "" {
		t.Fatal("the hub does not take it for done")
	}
}

// While the agent is away nobody waits for it: the request is kept, and fulfilled once when
// it is back, the hard one if there were several.
func TestRefreshWhileTheAgentIsAway(t *testing.T) {
	w := together(t, durable)
	hub := w.node[0]
	w.up = false
	hub.step(engine.Presence{})
	for range 3 {
		w.now = w.now.Add(20 * time.Second)
		hub.step(engine.Tick{})
	}
	for _, mark := range []string{resource.RefreshNormal, resource.RefreshHard, resource.RefreshNormal} {
		w.mark(hub, mark)
		w.hubAlone()
		if p := hub.store[app(0)].Parts; p[resource.RefreshMark] != "" || p[resource.Pending] != "agent spoke is away: the refresh waits until it is back" {
			t.Fatalf("%q", p)
		}
		w.now = w.now.Add(time.Second)
	}
	hub.restart()
	w.up = true
	hub.step(engine.Presence{Peer: true})
	w.quiet()
	if got := w.node[1].store[app(0)].Parts[resource.RefreshMark]; got != resource.RefreshHard {
		t.Fatalf("the spoke has %q", got)
	}
	w.settle(4)
	w.expect(t)
	if n := w.fresh[w.node[1].store[app(0)].UID]; n != 1 {
		t.Fatalf("it was refreshed %d times", n)
	}
}

// A mark of the spoke's own stays as it is, unless a hard refresh is asked for.
func TestRefreshBesideALocalOne(t *testing.T) {
	for _, c := range []struct{ local, asked, want string }{
		{resource.RefreshNormal, resource.RefreshNormal, resource.RefreshNormal},
		{resource.RefreshNormal, resource.RefreshHard, resource.RefreshHard},
		{resource.RefreshHard, resource.RefreshNormal, resource.RefreshHard},
		{resource.RefreshHard, "", resource.RefreshHard},
	} {
		w := together(t, durable)
		w.mark(w.node[1], c.local)
		w.quiet()
		if got := w.node[0].store[app(0)].Parts[resource.RefreshMark]; got != "" {
			t.Fatalf("it travels: %q", got)
		}
		if c.asked != "" {
			w.mark(w.node[0], c.asked)
		}
		w.quiet()
		if got := w.node[1].store[app(0)].Parts[resource.RefreshMark]; got != c.want {
			t.Fatalf("%q asked for beside %q makes %q", c.asked, c.local, got)
		}
		w.settle(4)
		w.expect(t)
	}
}

// Where there is no copy, for a reason that the user is told, nobody waits either.
func TestRefreshOfWhatHasNoCopy(t *testing.T) {
	w := together(t, durable)
	w.edit(1, "bad")
	w.settle(4)
	w.node[0].change(app(1), func(o *resource.Object) { o.Parts[resource.RefreshMark] = resource.RefreshNormal })
	w.quiet()
	if p := w.node[0].store[app(1)].Parts; p[resource.RefreshMark] != "" || p[resource.Fault] == "" {
		t.Fatalf("%q", p)
	}
	w.edit(1, "good")
	w.settle(4)
	w.expect(t)
}

// A harder request takes the place of one that is under way.
func TestHardRefreshAfterANormalOne(t *testing.T) {
	w := together(t, durable)
	w.mark(w.node[0], resource.RefreshNormal)
	w.quiet()
	w.now = w.now.Add(time.Second)
	w.mark(w.node[0], resource.RefreshHard)
	w.argo(app(0)) // the normal one ends
	w.quiet()
	if got := w.node[0].store[app(0)].Parts[resource.RefreshMark]; got != resource.RefreshHard {
		t.Fatalf("the hub has %q", got)
	}
	w.settle(4)
	w.expect(t)
	if n := w.fresh[w.node[1].store[app(0)].UID]; n != 2 {
		t.Fatalf("it was refreshed %d times", n)
	}
}
