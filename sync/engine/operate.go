package engine

import (
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// operate hands requests off from the principal to the agent: to run something, to end it,
// to refresh. They are parts like others, but nobody's copy. The principal keeps what is to
// be run set, under an id, until the agent's row shows that the operation of this id has
// ended; the agent takes an id once.
//
// An id is taken when the agent's object carries it, whether it runs or not; the principal
// knows it from the agent's row, or from a state that is not its own word. One that it does
// not know to be taken it takes back at once, and goes on to say so until the agent's row
// has that id too: by then the agent has put it down as failed, or, if it had taken it
// meanwhile, has ended it. So whichever word is first, the other follows.
func (e *Engine) operate(now time.Time, o *resource.Object, t *Record, en *entry) {
	switch {
	case o.Key.Kind != resource.Application:
	case e.owns(o.Key, resource.Operation):
		e.request(now, o, t, en)
		e.askRefresh(now, o, t, en)
	case !o.Deleting:
		e.take(now, o, t, en)
		e.takeRefresh(now, o, t)
	}
}

// take is the agent's half.
func (e *Engine) take(now time.Time, o *resource.Object, t *Record, en *entry) {
	op, id, state := &o.Parts[resource.Operation], &o.Parts[resource.OpID], &o.Parts[resource.OpState]
	asked, want := t.Parts[resource.Operation], t.Parts[resource.OpID]
	end, text := resource.ParseTerminate(t.Parts[resource.Terminate])
	at, named := resource.OperationNamed(want, e.originalOf(*o), asked)
	_, ours := resource.OperationNamed(*id, e.originalOf(*o), *op)
	switch {
	case *op != "":
		// What runs is what was taken last, or a user's here, which is not the principal's to
		// end. It has given up the former also if it asks for another.
		ours = ours || want == *id && en.keeps(resource.Operation, asked, *op)
		if ours && (end == *id || asked != "" && want != *id) && !resource.OperationFinished(*state) {
			*state = resource.Terminating(*state, *op, now)
		}
	case end != "" && end != *id:
		if text == "" {
			text = asked
		}
		*id, *state = end, resource.FailedOperation(text, endedUnrun, began(end, e.originalOf(*o), text, now), now)
	case asked == "" || want == *id:
	case named && e.cfg.Expiry > 0 && now.Sub(at) > e.cfg.Expiry:
		*id, *state = want, resource.FailedOperation(asked, "it was asked for more than "+e.cfg.Expiry.String()+" ago, and is not run any more", at, now)
	default:
		// The last state goes, as with Argo CD's own sync, or it would be taken for this one's.
		*op, *id, *state = asked, want, ""
	}
}

// endedUnrun is what both sides say of a request that was taken back.
const endedUnrun = "terminated before the agent took it: nothing was run"

// began returns when a request was made; now if its id does not say.
func began(id, uid, operation string, now time.Time) time.Time {
	if at, named := resource.OperationNamed(id, uid, operation); named {
		return at
	}
	return now
}

// request is the principal's half.
func (e *Engine) request(now time.Time, o *resource.Object, t *Record, en *entry) {
	op, id, state := &o.Parts[resource.Operation], &o.Parts[resource.OpID], &o.Parts[resource.OpState]
	told, uid := t.Parts[resource.OpState], e.originalOf(*o)
	at, named := resource.OperationNamed(*id, uid, *op)
	back, withdrawn := resource.Withdrawn(*id)
	mirror := func(want string) {
		if !en.keeps(resource.OpState, want, *state) {
			*state = want
		}
	}
	switch {
	case *op == "" && withdrawn:
		if t.Parts[resource.OpID] != back { // the agent has not said that it knows
			return
		}
		if told != "" {
			mirror(told)
		}
		if resource.OperationFinished(told) {
			*id = ""
		}
	case *op == "" && *id != "" && t.Parts[resource.OpID] != *id: // a user has taken it away
		text, _ := resource.OperationOf(*state)
		e.withdraw(now, o, en, text, began(*id, uid, text, now))
	case *op == "":
		*id = ""
		if en.heard {
			mirror(told)
		}
	case !named: // new, or somebody has rubbed the id out
		if en.stamp.operation != *op || en.stamp.uid != uid {
			en.stamp = stamp{*op, uid, newID(now, *op, uid, *state, t)}
		}
		if *id = en.stamp.id; t.Parts[resource.OpID] != *id { // an earlier operation's state is not this one's
			at, _ = resource.OperationNamed(*id, uid, *op)
			*state = resource.PendingOperation(*op, e.cfg.Peer, at)
		}
	case t.Parts[resource.OpID] != *id: // not known to be taken
		if resource.OperationTerminating(*state) && resource.OperationPending(*state, e.cfg.Peer) {
			e.withdraw(now, o, en, *op, at)
		}
	case resource.OperationFinished(told):
		*op, *id, *state = "", "", told
		en.stamp = stamp{}
	case told != "" && (!resource.OperationTerminating(*state) || resource.OperationTerminating(told)):
		mirror(told)
	}
}

// newID returns the id of a request that has none: that of the one which the agent has taken,
// if the state says that it is still under way.
func newID(now time.Time, operation, uid, state string, t *Record) string {
	_, taken := resource.OperationNamed(t.Parts[resource.OpID], uid, operation)
	if of, _ := resource.OperationOf(state); taken && of == operation && !resource.OperationFinished(state) {
		return t.Parts[resource.OpID]
	}
	return resource.OperationID(uid, now, operation)
}

// withdraw takes back a request that no agent is known to have taken.
func (e *Engine) withdraw(now time.Time, o *resource.Object, en *entry, operation string, at time.Time) {
	o.Parts[resource.Operation] = ""
	o.Parts[resource.OpID] = resource.Withdraw(o.Parts[resource.OpID])
	o.Parts[resource.OpState] = resource.FailedOperation(operation, endedUnrun, at, now)
	en.stamp = stamp{}
}

// requests returns parts, which are those of o, with what a principal has to say of its
// requests. One that has no id yet is not made known.
func (e *Engine) requests(o resource.Object, parts resource.Parts) resource.Parts {
	op, id, state := o.Parts[resource.Operation], o.Parts[resource.OpID], o.Parts[resource.OpState]
	_, named := resource.OperationNamed(id, e.originalOf(o), op)
	if !named {
		parts[resource.Operation], parts[resource.OpID] = "", ""
	}
	if named && resource.OperationTerminating(state) {
		parts[resource.Terminate] = resource.TerminateText(id, "")
	}
	if back, withdrawn := resource.Withdrawn(id); withdrawn {
		text, _ := resource.OperationOf(state)
		if _, same := resource.OperationNamed(back, e.originalOf(o), text); !same {
			text = ""
		}
		parts[resource.Terminate] = resource.TerminateText(back, text)
	}
	parts[resource.Refresh], _ = resource.RefreshKept(o.Parts[resource.Refresh])
	return parts
}

// originalOf returns the UID of the original that o is, or is the copy of.
func (e *Engine) originalOf(o resource.Object) string {
	if e.owns(o.Key, resource.Spec) {
		return o.UID
	}
	return o.Origin.UID
}
