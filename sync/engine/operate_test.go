package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// quiet lets all messages and writes arrive, while no controller works.
func (w *world) quiet() {
	for range 4 {
		w.now = w.now.Add(time.Minute)
		for _, n := range w.node {
			n.step(engine.Tick{})
		}
		for w.flow() {
		}
	}
}

// ask makes a request at the hub and returns it.
func (w *world) ask(k resource.Key) string {
	w.node[0].change(k, func(o *resource.Object) { w.operate(o) })
	return w.node[0].store[k].Parts[resource.Operation]
}

// The state of the operation before is not taken for that of one which has not begun.
func TestFinishedBeforeIsNotFinished(t *testing.T) {
	w := fleet(t, durable, 1)
	w.ask(app(0))
	w.settle(4)
	w.expect(t)
	op := w.ask(app(0))
	w.quiet()
	if got := w.node[1].store[app(0)].Parts; got[resource.Operation] != op || got[resource.OpState] != "" {
		t.Fatalf("the spoke has %q", got)
	}
	if got := w.node[0].store[app(0)].Parts; got[resource.Operation] != op || resource.OperationFinished(got[resource.OpState]) {
		t.Fatalf("the hub has %q", got)
	}
	w.settle(4)
	w.expect(t)
}

// A request waits until the spoke has done what it is about.
func TestBusyAppMakesARequestWait(t *testing.T) {
	w := fleet(t, durable, 1)
	w.node[1].change(app(0), func(o *resource.Object) { o.Parts[resource.Operation] = `{"id":"local"}` })
	w.ops[`{"id":"local"}`] = &operation{of: w.node[1].store[app(0)].UID, key: app(0), lost: 1, local: true}
	op := w.ask(app(0))
	w.quiet()
	if got := w.node[1].store[app(0)].Parts[resource.Operation]; got != `{"id":"local"}` {
		t.Fatalf("the spoke runs %s", got)
	}
	w.settle(4)
	w.expect(t)
	if w.ops[op].runs != 1 {
		t.Fatalf("%+v", w.ops[op])
	}
}

// What is to be run on an original that was replaced is not run on its successor.
func TestRequestEndsWithItsOriginal(t *testing.T) {
	w := newWorld(0, resource.Rules{Mode: resource.Autonomous, Mismatch: resource.Upsert}, durable)
	w.faulty = false
	w.create(w.node[1], app(0))
	w.node[1].change(app(0), func(o *resource.Object) { o.Parts[resource.Spec] = `"1"` })
	w.settle(6)
	w.up = false
	op := w.ask(app(0))
	w.quiet()
	w.remove(w.node[1], app(0), false)
	for w.finish(w.node[1]) {
	}
	w.create(w.node[1], app(0))
	w.node[1].change(app(0), func(o *resource.Object) { o.Parts[resource.Spec] = `"1"` })
	w.up = true
	w.settle(6)
	w.expect(t)
	if w.ops[op].runs != 0 {
		t.Fatalf("%+v", w.ops[op])
	}
}

// terminate has what was asked for terminated, as argocd does.
func (w *world) terminate(k resource.Key) {
	w.node[0].change(k, func(o *resource.Object) {
		op := o.Parts[resource.Operation]
		w.ops[op].ended = true
		o.Parts[resource.OpState] = resource.Terminating(o.Parts[resource.OpState], op, w.now)
	})
}

// hubAlone lets the hub come to rest while nothing reaches the spoke or comes from it.
func (w *world) hubAlone() {
	for w.node[0].turn() {
	}
}

// argoUntil lets the spoke's controller work until that is so of the object.
func (w *world) argoUntil(t *testing.T, k resource.Key, is func(resource.Object) bool) {
	t.Helper()
	for range 10 {
		if is(w.node[1].store[k]) {
			return
		}
		w.argo(k)
	}
	t.Fatalf("it does not get there: %v", w.node[1].store[k])
}

func runs(o resource.Object) bool {
	return o.Parts[resource.Operation] != "" && o.Parts[resource.OpState] != ""
}

func failed(o resource.Object) bool {
	return o.Parts[resource.Operation] == "" && resource.OperationFinished(o.Parts[resource.OpState]) && strings.Contains(o.Parts[resource.OpState], "Failed")
}

// What is terminated before an agent has it ends at once, and never runs; asked for again in
// the same words, it does.
func TestTerminatedBeforeItIsTaken(t *testing.T) {
	for _, k := range []linkKind{durable, volatile} {
		w := fleet(t, k, 1)
		w.up = false
		op := w.ask(app(0))
		w.hubAlone()
		w.terminate(app(0))
		before := w.node[0].rev
		w.hubAlone()
		if o := w.node[0].store[app(0)]; !failed(o) || w.node[0].rev != before+1 {
			t.Fatalf("after %d writes it is %v", w.node[0].rev-before, o)
		}
		w.up = true
		w.settle(6)
		w.expect(t)
		if w.ops[op].runs != 0 || !failed(w.node[1].store[app(0)]) {
			t.Fatalf("%+v %v", w.ops[op], w.node[1].store[app(0)])
		}
		w.ops[op] = &operation{of: w.ops[op].of, key: app(0), asked: w.now}
		w.node[0].change(app(0), func(o *resource.Object) { o.Parts[resource.Operation], o.Parts[resource.OpState] = op, "" })
		w.settle(6)
		w.expect(t)
		if w.ops[op].runs != 1 {
			t.Fatalf("%+v", w.ops[op])
		}
	}
}

// takenUnseen has the spoke take and begin a request of which the hub does not learn.
func (w *world) takenUnseen(t *testing.T) (op string) {
	op = w.ask(app(0))
	w.hubAlone()
	w.half[0].carry(w.r)
	w.up = false
	w.quiet()
	w.argoUntil(t, app(0), runs)
	return op
}

// The end of a request reaches an agent that took it while the hub did not know, also if
// something else was asked for, and ended, since.
func TestTerminatedWhileItIsTaken(t *testing.T) {
	for again := range 3 {
		w := fleet(t, durable, 1)
		op := w.takenUnseen(t)
		w.terminate(app(0))
		w.hubAlone()
		var then string
		if again > 0 {
			then = w.ask(app(0))
			w.hubAlone()
		}
		if again > 1 {
			w.terminate(app(0))
			w.hubAlone()
		}
		w.up = true
		w.quiet()
		if o := w.node[1].store[app(0)]; o.Parts[resource.Operation] != op || !resource.OperationTerminating(o.Parts[resource.OpState]) {
			t.Fatalf("the spoke has %v", o)
		}
		w.settle(6)
		w.expect(t)
		if w.ops[op].runs != 1 || again == 1 && w.ops[then].runs != 1 || again == 2 && w.ops[then].runs != 0 {
			t.Fatalf("%+v, then %+v", w.ops[op], w.ops[then])
		}
		if o := w.node[0].store[app(0)]; again != 1 && !failed(o) {
			t.Fatalf("the hub has %v", o)
		}
	}
}

// What runs is terminated by the agent, and keeps its place on the hub until it has ended.
func TestTerminatedWhileItRuns(t *testing.T) {
	w := fleet(t, durable, 1)
	op := w.ask(app(0))
	w.quiet()
	w.argoUntil(t, app(0), runs)
	w.quiet()
	w.terminate(app(0))
	w.quiet()
	for _, n := range w.node {
		if o := n.store[app(0)]; o.Parts[resource.Operation] != op || !resource.OperationTerminating(o.Parts[resource.OpState]) {
			t.Fatalf("%v has %v", n.side, o)
		}
	}
	w.settle(6)
	w.expect(t)
	if w.ops[op].runs != 1 || !failed(w.node[0].store[app(0)]) {
		t.Fatalf("%+v %v", w.ops[op], w.node[0].store[app(0)])
	}
}

// What a spoke's own user asks for is not ended with what the hub has asked for before.
func TestTerminateSparesALocalRequest(t *testing.T) {
	w := fleet(t, durable, 1)
	op := w.takenUnseen(t)
	w.argoUntil(t, app(0), func(o resource.Object) bool { return o.Parts[resource.Operation] == "" })
	w.node[1].change(app(0), func(o *resource.Object) {
		o.Parts[resource.Operation], o.Parts[resource.OpState] = `{"id":"local"}`, ""
	})
	w.ops[`{"id":"local"}`] = &operation{of: w.node[1].store[app(0)].UID, key: app(0), lost: 1, local: true}
	w.argoUntil(t, app(0), runs)
	w.terminate(app(0))
	w.hubAlone()
	w.up = true
	w.quiet()
	if o := w.node[1].store[app(0)]; resource.OperationTerminating(o.Parts[resource.OpState]) {
		t.Fatalf("the spoke has %v", o)
	}
	w.settle(6)
	w.expect(t)
	if w.ops[op].runs != 1 || w.ops[`{"id":"local"}`].runs != 1 {
		t.Fatalf("%+v", w.ops)
	}
}

// A spoke's own request is seen on the hub, and what is asked for there waits for it.
func TestLocalRequestIsSeen(t *testing.T) {
	w := fleet(t, durable, 1)
	w.node[1].change(app(0), func(o *resource.Object) { o.Parts[resource.Operation] = `{"id":"local"}` })
	w.ops[`{"id":"local"}`] = &operation{of: w.node[1].store[app(0)].UID, key: app(0), lost: 1, local: true}
	w.argoUntil(t, app(0), runs)
	w.quiet()
	if got, want := w.node[0].store[app(0)].Parts[resource.OpState], w.node[1].store[app(0)].Parts[resource.OpState]; got != want {
		t.Fatalf("the hub shows %s, not %s", got, want)
	}
	w.settle(4)
	w.expect(t)
}

// A request that is too old when it arrives is answered, and not run.
func TestOldRequestsExpire(t *testing.T) {
	w := fleet(t, durable, 1)
	w.expiry = time.Hour
	w.node[1].restart()
	w.up = false
	op := w.ask(app(0))
	w.hubAlone()
	w.now = w.now.Add(61 * time.Minute)
	w.up = true
	w.settle(6)
	w.expect(t)
	o := w.node[0].store[app(0)]
	if w.ops[op].runs != 0 || !failed(o) || !strings.Contains(o.Parts[resource.OpState], "more than 1h0m0s ago") {
		t.Fatalf("%+v %v", w.ops[op], o)
	}
	young := w.ask(app(0))
	w.settle(6)
	w.expect(t)
	if w.ops[young].runs != 1 {
		t.Fatalf("%+v", w.ops[young])
	}
}

// Somebody who rubs the id out does not have it run twice, whatever else goes wrong.
func TestRubbedOutID(t *testing.T) {
	w := fleet(t, durable, 1)
	op := w.ask(app(0))
	w.quiet()
	w.argoUntil(t, app(0), runs)
	w.quiet()
	w.node[0].change(app(0), func(o *resource.Object) { o.Parts[resource.OpID] = "" })
	w.node[0].restart()
	w.settle(6)
	w.expect(t)
	if w.ops[op].runs != 1 {
		t.Fatalf("%+v", w.ops[op])
	}
}

// An operation is never without the spec on which it was asked for: they are one row.
func TestRequestComesWithItsSpec(t *testing.T) {
	w := fleet(t, durable, 1)
	w.edit(0, "new")
	op := w.ask(app(0))
	for w.node[1].store[app(0)].Parts[resource.Operation] != op {
		if !w.flow() {
			t.Fatal("it never comes")
		}
	}
	if got := w.node[1].store[app(0)].Parts[resource.Spec]; got != `"new"` {
		t.Fatalf("%s is to be run on %s", op, got)
	}
}
