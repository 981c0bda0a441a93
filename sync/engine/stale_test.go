package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Once an agent has been away for long each of its Applications says so, in one text that
// stays as it is for as long as the agent is away, across restarts of the principal; and says
// it no more once the agent is back.
func TestStale(t *testing.T) {
	w := fleet(t, durable, 1000)
	hub := w.node[0]
	w.lapse = 5 * time.Minute
	hub.restart()
	hub.step(engine.Presence{Peer: true})
	w.settle(2)
	says := func() map[string]int {
		out := map[string]int{}
		for _, o := range hub.store {
			out[o.Parts[resource.Pending]]++
		}
		return out
	}
	w.up = false
	hub.step(engine.Presence{})
	w.reset()
	w.settle(5)
	if hub.writes > 0 {
		t.Fatalf("it has written %d times of an agent that has not been away for long: %v", hub.writes, says())
	}
	w.remove(hub, app(1), true) // says that it waits
	w.settle(100)
	told := says()
	if len(told) != 2 || hub.writes != 1000 {
		t.Fatalf("it has written %d times: %v", hub.writes, told)
	}
	for text, n := range told {
		if !strings.HasPrefix(text, "agent spoke has not been heard of since 2023-11-1") && n > 1 {
			t.Errorf("%d say %q", n, text)
		}
	}

	hub.restart()
	w.settle(100)
	if now := says(); len(now) != 2 || hub.writes != 1000 {
		t.Errorf("after a restart it has written %d times: %v", hub.writes, now)
	}

	w.up = true
	hub.step(engine.Presence{Peer: true})
	w.settle(8)
	w.expect(t)
	w.reset()
	w.settle(10)
	if c := w.counts(); c != [6]int{} {
		t.Errorf("they go on to say %v", c)
	}
}

// What a principal that was restarted finds to be said of an agent's being away is taken back
// if the agent is there.
func TestStaleNoMore(t *testing.T) {
	for _, mode := range []resource.Mode{resource.Managed, resource.Autonomous} {
		w := newWorld(0, resource.Rules{Mode: mode}, durable)
		w.faulty, w.lapse = false, time.Minute
		own := w.ownerNode()
		w.node[0].restart()
		w.create(own, app(0))
		own.change(app(0), func(o *resource.Object) { o.Parts[resource.Spec] = `"1"` })
		w.settle(8)
		if o := w.node[0].store[app(0)]; !strings.Contains(o.Parts[resource.Pending], "has not been heard of since") {
			t.Errorf("%v: it says %q", mode, o.Parts[resource.Pending])
		}
		w.node[0].restart()
		w.node[0].step(engine.Presence{Peer: true})
		w.settle(4)
		w.expect(t)
	}
}
