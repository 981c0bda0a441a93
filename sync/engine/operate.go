package engine

import (
	"cmp"
	"slices"
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
	case !o.Key.Kind.Has(resource.Operation):
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
	asked, want, uid := t.Parts[resource.Operation], t.Parts[resource.OpID], e.originalOf(*o)
	end := resource.ParseTermination(t.Parts[resource.Terminate])
	at, named := resource.OperationNamed(want, uid, asked)
	_, ours := resource.OperationNamed(*id, uid, *op)
	switch {
	case *op != "":
		// What a user here has asked for is not the principal's to end.
		ours = ours || want == *id && en.keeps(resource.Operation, asked, *op)
		if ours && slices.Contains(end.IDs, *id) && !resource.OperationFinished(*state) {
			*state = resource.Terminating(*state, *op, now)
		}
	case end.Last() != "" && end.Last() != *id && (asked == "" || end.Last() == want):
		text := cmp.Or(end.Operation, asked)
		putDown(o, end.Last(), resource.FailedOperation(text, endedUnrun, began(end.Last(), uid, text, now), now))
	case asked == "" || want == *id:
	case named && e.cfg.Expiry > 0 && now.Sub(at) > e.cfg.Expiry:
		putDown(o, want, resource.FailedOperation(asked, "it was asked for more than "+e.cfg.Expiry.String()+" ago, and is not run any more", at, now))
	default:
		// The last state goes, as with Argo CD's own sync, or it would be taken for this one's.
		*op, *id, *state = asked, want, ""
	}
}

// putDown takes a request without running it. Whoever waits for its end waits, as after any
// operation, until the object has been reconciled since.
func putDown(o *resource.Object, id, state string) {
	o.Parts[resource.OpID], o.Parts[resource.OpState] = id, state
	o.Parts[resource.RefreshMark] = cmp.Or(o.Parts[resource.RefreshMark], resource.RefreshNormal)
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
	r := resource.ParseRequests(o.Parts[resource.OpID])
	if o.Parts[resource.Operation] == "" {
		r = e.withdrawn(now, o, t, en, r)
	} else {
		r = e.standing(now, o, t, en, r)
	}
	o.Parts[resource.OpID] = r.Text()
}

// standing sees to a request that stands.
func (e *Engine) standing(now time.Time, o *resource.Object, t *Record, en *entry, r resource.Requests) resource.Requests {
	op, state := &o.Parts[resource.Operation], &o.Parts[resource.OpState]
	told, known, uid := t.Parts[resource.OpState], t.Parts[resource.OpID], e.originalOf(*o)
	at, named := resource.OperationNamed(r.ID, uid, *op)
	switch {
	case !named: // new, or somebody has rubbed the id out
		if en.stamp.operation != *op || en.stamp.uid != uid {
			en.stamp = stamp{*op, uid, newID(now, *op, uid, *state, t)}
		}
		if r.ID = en.stamp.id; known != r.ID { // an earlier operation's state is not this one's
			at, _ = resource.OperationNamed(r.ID, uid, *op)
			*state = resource.PendingOperation(*op, e.cfg.Peer, at)
		}
	case known != r.ID: // not known to be taken
		if resource.OperationTerminating(*state) && resource.OperationPending(*state, e.cfg.Peer) {
			r, *state = r.Withdraw(), resource.FailedOperation(*op, endedUnrun, at, now)
			*op, en.stamp = "", stamp{}
		}
	case resource.OperationFinished(told):
		*op, *state = "", told
		r, en.stamp = resource.Requests{}, stamp{}
	default:
		r.Back = nil
		if told != "" && (!resource.OperationTerminating(*state) || resource.OperationTerminating(told)) {
			en.mirrorState(o, told)
		}
	}
	return r
}

// withdrawn sees to an object on which no request stands, or none any more.
func (e *Engine) withdrawn(now time.Time, o *resource.Object, t *Record, en *entry, r resource.Requests) resource.Requests {
	told, known, state := t.Parts[resource.OpState], t.Parts[resource.OpID], o.Parts[resource.OpState]
	switch {
	case r.ID != "" && known != r.ID && (state == "" || resource.OperationPending(state, e.cfg.Peer)): // a user has taken it away
		text, _ := resource.OperationOf(state)
		o.Parts[resource.OpState] = resource.FailedOperation(text, endedUnrun, began(r.ID, e.originalOf(*o), text, now), now)
		en.stamp = stamp{}
		return r.Withdraw()
	case r.ID == "" && len(r.Back) > 0:
		if !slices.Contains(r.Back, known) { // the agent has not said that it knows
			return r
		}
		if told != "" {
			en.mirrorState(o, told)
		}
		if known != r.Back[len(r.Back)-1] || !resource.OperationFinished(told) {
			return r
		}
	case en.heard:
		en.mirrorState(o, told)
	}
	return resource.Requests{}
}

// mirrorState gives o the agent's state of the operation.
func (en *entry) mirrorState(o *resource.Object, told string) {
	if !en.keeps(resource.OpState, told, o.Parts[resource.OpState]) {
		o.Parts[resource.OpState] = told
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

// requests returns parts, which are those of o, with what a principal has to say of its
// requests. One that has no id yet is not made known.
func (e *Engine) requests(o resource.Object, parts resource.Parts) resource.Parts {
	op, state, uid := o.Parts[resource.Operation], o.Parts[resource.OpState], e.originalOf(o)
	r := resource.ParseRequests(o.Parts[resource.OpID])
	end := resource.Termination{IDs: r.Back}
	parts[resource.OpID] = r.ID
	switch _, named := resource.OperationNamed(r.ID, uid, op); {
	case !named:
		parts[resource.Operation], parts[resource.OpID] = "", ""
		text, _ := resource.OperationOf(state)
		if _, same := resource.OperationNamed(end.Last(), uid, text); same {
			end.Operation = text
		}
	case resource.OperationTerminating(state):
		end.IDs = append(end.IDs, r.ID)
	}
	parts[resource.Terminate] = end.Text()
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
