package engine_test

import (
	"fmt"
	"maps"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// request asks at the hub for something to be run, has it terminated as argocd does, or
// takes it back.
func (w *world) request() {
	hub := w.node[0]
	o, ok := hub.store[app(w.r.IntN(w.names))]
	if !ok || o.Deleting || o.Excluded || w.original(hub, o) == "" {
		return
	}
	state := o.Parts[resource.OpState]
	switch op, c := o.Parts[resource.Operation], w.r.IntN(8); {
	case op == "":
		w.operate(&o)
	case c < 3 && strings.HasPrefix(state, "{"):
		w.ops[op].ended = true
		o.Parts[resource.OpState] = resource.Terminating(state, op, w.now)
	case c == 3:
		w.ops[op].ended = true
		o.Parts[resource.Operation] = ""
	default:
		return
	}
	hub.put(o)
}

// localRequest asks on the spoke: that is nobody's to repeat or to end.
func (w *world) localRequest() {
	spoke := w.node[1]
	o, ok := spoke.store[app(w.r.IntN(w.names))]
	if !ok || o.Deleting || o.Parts[resource.Operation] != "" {
		return
	}
	op := fmt.Sprintf(`{"id":"local%d"}`, len(w.ops))
	o.Parts[resource.Operation], o.Parts[resource.OpState] = op, ""
	w.ops[op] = &operation{of: o.UID, key: o.Key, lost: 1, local: true}
	spoke.put(o)
}

// wish marks an object as one to be refreshed.
func (w *world) wish(n *node) {
	o, ok := n.store[app(w.r.IntN(w.names))]
	mark := []string{resource.RefreshNormal, resource.RefreshHard}[w.r.IntN(2)]
	if !ok || o.Deleting || o.Excluded || o.Parts[resource.RefreshMark] == mark || o.Parts[resource.RefreshMark] == resource.RefreshHard || w.original(n, o) == "" && n.side == resource.Principal {
		return
	}
	if id, _ := resource.RefreshKept(o.Parts[resource.Refresh]); n.side == resource.Principal && id != "" && resource.RefreshAsked(id) == mark {
		return // such a request stands already, and what fulfils it fulfils this one
	}
	if n.side == resource.Principal {
		w.wishes[o.Key] = &wish{of: w.original(n, o), hard: mark == resource.RefreshHard, before: maps.Clone(w.fresh)}
	}
	o.Parts[resource.RefreshMark] = mark
	n.put(o)
}

// checkHubRequests judges what a principal does about requests.
func (w *world) checkHubRequests(cur, o resource.Object) {
	if cur.UID == "" || w.original(w.node[0], cur) != w.original(w.node[0], o) {
		return
	}
	if op := cur.Parts[resource.Operation]; op != "" && o.Parts[resource.Operation] == "" && !resource.OperationFinished(o.Parts[resource.OpState]) {
		w.fail("%v lost its request before that had ended: %v", cur, o)
	}
	if cur.Parts[resource.RefreshMark] == "" || o.Parts[resource.RefreshMark] != "" {
		return
	}
	if o.Parts[resource.Pending] != "" || o.Parts[resource.Fault] != "" || o.Parts[resource.Held] != "" {
		return // nobody is there, or can
	}
	wish, s := w.wishes[o.Key], statusOf(o.Parts[resource.Status])
	if wish.of == w.original(w.node[0], o) && s.Refreshed <= wish.before[s.Of] {
		w.fail("%v lost its mark before it was refreshed: %v, %+v", cur, o, wish)
	}
}

// checkSpokeRequests judges what an agent does about requests.
func (w *world) checkSpokeRequests(cur, o resource.Object, doubt string) {
	op, was := o.Parts[resource.Operation], cur.Parts[resource.Operation]
	switch {
	case was != "" && op != was:
		w.fail("%v runs something else, %v", cur, o)
	case was != "" && resource.OperationTerminating(o.Parts[resource.OpState]) && !resource.OperationTerminating(cur.Parts[resource.OpState]):
		if known := w.ops[was]; known.local || !known.ended {
			w.fail("%v was terminated, and nobody wanted that: %+v", cur, known)
		}
	}
	if of, at := resource.OperationOf(o.Parts[resource.OpState]); strings.Contains(o.Parts[resource.OpState], " ago") && w.ops[of] != nil {
		if w.expiry == 0 || w.now.Sub(at) < w.expiry {
			w.fail("%v is not old: %+v", o, w.ops[of])
		}
		w.ops[of].late = true
	}
	if mark := o.Parts[resource.RefreshMark]; cur.Parts[resource.RefreshMark] == resource.RefreshHard && mark != resource.RefreshHard {
		w.fail("%v lost its mark: %v", cur, o)
	}
	if id := resource.RefreshTaken(o.Parts[resource.Refresh]); id != resource.RefreshTaken(cur.Parts[resource.Refresh]) && cur.UID != "" {
		w.taken[id+" of "+cur.UID]++
	}
	if op != "" && was == "" && doubt != "" {
		w.fail("%v takes %+v: %s", o, w.ops[op], doubt)
	}
}

// doubt says what is wrong with a write of an agent's if by it a request is taken.
func (w *world) doubt(n *node, a engine.Action) string {
	write, ok := a.(engine.Write)
	if !ok || n.side == resource.Principal {
		return ""
	}
	op := write.Object.Parts[resource.Operation]
	at, named := resource.OperationNamed(write.Object.Parts[resource.OpID], w.original(n, write.Object), op)
	switch {
	case named && w.ops[op].known:
		return "it is known that it was ended"
	case named && w.expiry > 0 && w.now.Sub(at) > w.expiry:
		return "it is too old"
	}
	return ""
}

// hear takes note of what an agent learns of the end of requests.
func (w *world) hear(n *node, ev engine.Event) {
	in, ok := ev.(engine.Received)
	if !ok || n.side == resource.Principal || in.At <= n.heard[in.Message.Key] {
		return
	}
	n.heard[in.Message.Key] = in.At
	r, ok := in.Message.Body.(engine.Record)
	if !ok || r.Parts[resource.Terminate] == "" {
		return
	}
	for _, id := range resource.ParseTermination(r.Parts[resource.Terminate]).IDs {
		for text, op := range w.ops {
			if _, named := resource.OperationNamed(id, r.UID, text); named {
				op.known = true
			}
		}
	}
}

// judgeRequests judges at the end what became of all requests.
func (w *world) judgeRequests(apart map[resource.Key]bool) error {
	for id, op := range w.ops {
		if op.runs > 1+op.lost || op.local && op.runs > 1 {
			return fmt.Errorf("%s ran %d times: %+v", id, op.runs, op)
		}
		if op.runs == 0 && op.lost == 0 && !op.ended && !op.late && !w.deleted[op.of] && !apart[op.key] {
			return fmt.Errorf("%s never ran: %+v", id, op)
		}
	}
	for id, n := range w.taken {
		if n > 1 {
			return fmt.Errorf("the refresh %s was taken %d times", id, n)
		}
	}
	for _, k := range sortedKeys(w.wishes) {
		wish, o := w.wishes[k], w.node[0].store[k]
		if apart[k] || w.original(w.node[0], o) != wish.of || wish.of == "" {
			continue
		}
		if c := w.node[1].store[k]; !wish.done && !w.hidden[c.UID] && !w.hidden[o.UID] {
			return fmt.Errorf("%v was not refreshed, as %+v wanted", c, wish)
		}
	}
	return nil
}
