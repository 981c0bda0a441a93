package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Applications that are deleted, made anew and deleted again while the agent is away, each
// time before the principal's eyes, are known to be deleted, however many they are: their
// copies are not held back as if the hub had lost them.
func TestSeveralLivesWhileApart(t *testing.T) {
	w := fleet(t, durable, 10)
	w.up = false
	for i := range 7 {
		w.remove(w.node[0], app(i), false)
		w.settle(1)
		for range 2 {
			w.edit(i, "again")
			w.settle(1)
			w.remove(w.node[0], app(i), false)
			w.settle(1)
		}
	}
	w.up = true
	w.settle(8)
	if held := w.node[1].eng.Status().Held; len(held) > 0 {
		t.Errorf("%d deletions that were seen are held", len(held))
	}
	if n := len(w.node[1].store); n != 3 {
		t.Errorf("%d copies are left of 3 originals", n)
	}
}

// An original that comes back with its identity, as one does that was another agent's
// meanwhile, is not known to be deleted when it is merely missing later.
func TestAnOriginalThatComesBack(t *testing.T) {
	now := time.Unix(1, 0)
	e := engine.New(engine.Config{Side: resource.Principal, Self: "hub", Peer: "edge"})
	e.Step(now, engine.Opened{Epoch: "1", Keeps: true})
	said := func(ev engine.Event) engine.Body {
		t.Helper()
		for _, a := range e.Step(now, ev) {
			if s, ok := a.(engine.Send); ok && s.Message.Key == app(1) {
				return s.Message.Body
			}
		}
		t.Fatal("nothing is said")
		return nil
	}
	o := resource.Object{Key: app(1), UID: "u", Version: "1", Parts: resource.Parts{resource.Spec: `"1"`}}
	gone := engine.Vanished{Key: app(1), UID: "u"}
	seen := gone
	seen.Seen = true
	said(engine.Changed{Object: o})
	if is := said(seen); is != (engine.Tombstone{UID: "u"}) {
		t.Errorf("deleted before everybody's eyes, it says %#v", is)
	}
	if r, ok := said(engine.Changed{Object: o}).(engine.Record); !ok || r.UID != "u" {
		t.Errorf("back again, it says %#v", r)
	}
	if is := said(gone); is != (engine.Tombstone{}) {
		t.Errorf("merely missing, it says %#v", is)
	}
}

// TestALogThatIsOpenedAgainIsOlderThanWhatIsKnown: a deletion that was seen while the log was
// read is told as one, although the log held the object then.
func TestALogThatIsOpenedAgainIsOlderThanWhatIsKnown(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	e := engine.New(engine.Config{Side: resource.Principal, Self: "hub", Peer: "spoke"})
	says := func(ev engine.Event) engine.Body {
		for _, a := range e.Step(now, ev) {
			if m, ok := a.(engine.Send); ok && m.Message.Key == app(0) {
				return m.Message.Body
			}
		}
		return nil
	}
	o := resource.Object{Key: app(0), UID: "p1", Version: "1", Parts: resource.Parts{resource.Spec: `{}`}}
	says(engine.Changed{Object: o})
	row := says(engine.Opened{Epoch: "1", Keeps: true})
	require.NotNil(t, row)
	then := engine.Opened{Epoch: "1", Keeps: true, Holds: map[resource.Key]engine.Held{app(0): {Digest: row.Digest(), UID: "p1"}}}
	gone := engine.Tombstone{UID: "p1"}
	require.Equal(t, gone, says(engine.Vanished{Key: app(0), UID: "p1", Seen: true}))
	require.Equal(t, gone, says(then))
}
