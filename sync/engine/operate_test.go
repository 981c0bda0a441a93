package engine_test

import (
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
