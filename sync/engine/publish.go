package engine

import "github.com/argocd-fabric/argocd-agent/sync/resource"

// publish makes our row in the log what it should be; again repeats it even if it is.
// While a write is under way the row waits for its outcome, and one that is to be sealed for
// the peer's key.
func (e *Engine) publish(k resource.Key, en *entry, again bool) []Action {
	if en.busy {
		return nil
	}
	w := e.want(k, en)
	if unsealed(k, w) {
		return nil
	}
	d := w.Digest()
	if d == en.sent && !again {
		return nil
	}
	e.log.set(k, en.sent, d)
	en.record(w, d)
	e.owe(en)
	return send(k, w)
}

// want returns what our log should hold for k: the row, or in place of one that the link
// will never take a word that this object is not synchronised.
func (e *Engine) want(k resource.Key, en *entry) Body {
	w := e.row(k, en)
	if r, ok := w.(Record); ok && en.unfit.row != "" && w.Digest() == en.unfit.row {
		return Record{UID: r.UID, By: r.By, After: r.After, Phase: Excluded}
	}
	return w
}

// row returns what we have to say of k. A Record with nothing in it is none.
func (e *Engine) row(k resource.Key, en *entry) Body {
	w := e.content(k, en)
	if unsealed(k, w) {
		r := w.(Record)
		r.Seal = e.key
		return r
	}
	return w
}

// content returns a row before it is known with which key it is sealed.
func (e *Engine) content(k resource.Key, en *entry) Body {
	if e.owns(k, resource.Spec) {
		return e.ownRow(en)
	}
	o, t := en.local, en.told
	ours := o != nil && o.Origin.UID != ""
	var r Record
	switch {
	case t != nil && t.Phase == Going && (!ours || o.Excluded):
		return Record{UID: t.UID, By: e.cfg.Self, Phase: Gone, Parts: e.left(k, o)}
	case ours && o.Excluded:
		return Record{UID: o.Origin.UID, By: e.cfg.Self, Phase: Excluded}
	case ours:
		r = Record{UID: o.Origin.UID, By: e.cfg.Self, Parts: e.say(*o)}
	}
	if f := e.fault(en); f != "" && e.owns(k, resource.Fault) {
		if uid := en.faulty(); r.UID != uid { // a fault in replacing the copy of another
			r = Record{UID: uid, By: e.cfg.Self}
		}
		r.Parts[resource.Fault] = f
	}
	if r.Parts == (resource.Parts{}) {
		return Tombstone{}
	}
	return r
}

// left says, with Gone, why an object is here all the same and stays: nobody waits for it to go
// who only deletes the original, but who moves that elsewhere must know.
func (e *Engine) left(k resource.Key, o *resource.Object) (parts resource.Parts) {
	switch {
	case o == nil || !e.owns(k, resource.Fault):
	case o.Origin.UID != "":
		parts[resource.Fault] = "it is excluded there"
	case e.cfg.Rules.Adopts(e.cfg.Side, *o):
		parts[resource.Fault] = "what has that name there is not marked as its copy"
	}
	return parts
}

// ownRow returns the row of an original of ours.
func (e *Engine) ownRow(en *entry) Body {
	o := en.local
	if o == nil {
		if en.died {
			return Tombstone{UID: en.uid, After: en.after}
		}
		return Tombstone{After: en.after}
	}
	r := Record{UID: o.UID, By: e.cfg.Self, After: en.after}
	if en.uid != o.UID {
		if en.died {
			r.After = en.after.with(en.uid)
		}
	}
	switch {
	case o.Excluded:
		r.Phase = Excluded
		return r
	case o.Deleting && e.cfg.Rules.Confirmed(o.Key.Kind):
		r.Phase = Going
	}
	r.Parts = e.say(*o)
	return r
}

// say returns the parts of o that we say.
func (e *Engine) say(o resource.Object) (parts resource.Parts) {
	for p := range resource.NumParts {
		if e.owns(o.Key, p) && p != resource.Fault {
			parts[p] = o.Parts[p]
		}
	}
	if e.owns(o.Key, resource.Operation) {
		return e.requests(o, parts)
	}
	parts[resource.Refresh] = resource.Refreshed(o)
	return parts
}

// assume takes the peer's parts of a local object for its row, if nothing was heard. If
// that is wrong the sums will not agree, and an Ask brings the truth.
func (e *Engine) assume(k resource.Key, en *entry) {
	o := en.local
	if en.heard || en.opaque.Row != "" || o == nil || o.Excluded {
		return
	}
	r := Record{UID: o.Origin.UID, By: o.Origin.By}
	switch {
	case e.owns(k, resource.Spec):
		r.UID, r.By = o.UID, e.cfg.Peer
	case e.foreign(*o):
		return // the peer has not said it
	}
	for p := range resource.NumParts {
		if e.cfg.Rules.Mirrors(e.cfg.Side, k.Kind, p) {
			r.Parts[p] = o.Parts[p]
		}
	}
	if e.owns(k, resource.Operation) && o.Parts[resource.Operation]+o.Parts[resource.OpID] != "" {
		r.Parts[resource.OpState] = "" // it may be our own word of what became of the request
	}
	if !e.owns(k, resource.Meta) {
		m := resource.ParseMetadata(r.Parts[resource.Meta])
		r.Parts[resource.Meta] = m.Only(resource.ParseMetadata(o.Ours)).Text()
	}
	if k.Kind.Sealed() {
		r.Seal = e.key
	}
	if r.UID != "" && r.By != "" && r.Parts != (resource.Parts{}) && !unsealed(k, r) {
		e.tell(k, en, &r)
	}
}

// tell sets the peer's row.
func (e *Engine) tell(k resource.Key, en *entry, r *Record) {
	from, to := en.row(), digest(r)
	en.opaque = opaque{}
	e.copy.set(k, from, to)
	if from != to {
		e.stirred, e.vain = true, 0
	}
	if en.told != nil && en.told.Parts[resource.Meta] != "" {
		before := resource.ParseMetadata(en.told.Parts[resource.Meta])
		en.keys = en.keys.Overlay(before.Keys(), resource.Metadata{})
	}
	if r != nil {
		en.dead = r.After.and(en.dead)
		switch r.Phase {
		case Going:
			en.dead = en.dead.with(r.UID)
		case Live:
			en.dead = en.dead.without(r.UID) // it may have been brought back with its identity
		}
	}
	en.told, en.toldOf, en.heard, en.laidOver = r, to, true, overlay{}
}
