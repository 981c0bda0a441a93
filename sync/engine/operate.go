package engine

import (
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// operate hands a request to run something off from the principal to the agent. It is a
// part like others, but nobody's copy: the principal keeps it set, under an id, until the
// agent's row shows that the operation of this id has ended; the agent takes an id once.
func (e *Engine) operate(now time.Time, o *resource.Object, t *Record, en *entry) {
	if !o.Key.Kind.Has(resource.Operation) {
		return
	}
	if e.owns(o.Key, resource.Operation) {
		e.request(now, o, t, en)
		return
	}
	asked, id := t.Parts[resource.Operation], t.Parts[resource.OpID]
	if asked != "" && id != o.Parts[resource.OpID] && o.Parts[resource.Operation] == "" && !o.Deleting {
		// The last state goes, as with Argo CD's own sync, or it would be taken for this one's.
		o.Parts[resource.Operation], o.Parts[resource.OpID], o.Parts[resource.OpState] = asked, id, ""
	}
}

// request is the principal's half.
func (e *Engine) request(now time.Time, o *resource.Object, t *Record, en *entry) {
	op, id, state := &o.Parts[resource.Operation], &o.Parts[resource.OpID], t.Parts[resource.OpState]
	uid := o.Origin.UID
	if e.owns(o.Key, resource.Spec) {
		uid = o.UID
	}
	_, named := resource.OperationNamed(*id, uid, *op)
	switch {
	case *op == "":
		*id = ""
		if en.heard && !en.keeps(resource.OpState, state, o.Parts[resource.OpState]) {
			o.Parts[resource.OpState] = state
		}
	case !named: // new: an earlier operation's state is not this one's
		if en.stamp.operation != *op || en.stamp.uid != uid {
			en.stamp = stamp{*op, uid, resource.OperationID(uid, now, *op)}
		}
		*id = en.stamp.id
		at, _ := resource.OperationNamed(*id, uid, *op)
		o.Parts[resource.OpState] = resource.PendingOperation(*op, e.cfg.Peer, at)
	case t.Parts[resource.OpID] != *id: // not taken yet
	case resource.OperationFinished(state):
		*op, *id, o.Parts[resource.OpState] = "", "", state
		en.stamp = stamp{}
	case state != "" && !en.keeps(resource.OpState, state, o.Parts[resource.OpState]):
		o.Parts[resource.OpState] = state
	}
}
