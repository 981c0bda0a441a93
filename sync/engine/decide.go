package engine

import (
	"cmp"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// decide compares what is with what should be, for one key, on both sides.
func (e *Engine) decide(now time.Time, k resource.Key, en *entry) []Action {
	if !e.open {
		return nil
	}
	e.note(k, en)
	e.follow(k, en)
	if en.unfit != (unfit{}) && e.row(k, en).Digest() != en.unfit.row {
		en.unfit = unfit{}
	}
	out := append(e.settle(now, k, en), e.publish(k, en, en.lost)...)
	if en.spent() {
		e.spent[k] = true
	}
	return out
}

// settle makes the local object what it should be.
func (e *Engine) settle(now time.Time, k resource.Key, en *entry) []Action {
	if en.busy {
		return nil
	}
	var a Action
	goal := e.goal(now, k, en)
	switch {
	case goal == nil && en.local == nil, goal != nil && en.local != nil && *goal == *en.local:
		en.tried, en.tries, en.fault, en.failure, en.denied, en.keys = nil, 0, "", "", false, resource.Metadata{}
		return nil
	case goal == nil:
		a = Remove{k, en.local.Version}
		en.was = ""
	default:
		a = Write{*goal}
	}
	same := en.triedOf == en.toldOf
	if a == en.tried || same && (en.fault != "" || en.tries > 0 && now.Before(en.retry)) {
		return nil
	}
	if e.waits(k, en, goal) {
		return nil
	}
	if !same {
		en.tries = 0
	}
	e.lay(k, en, goal)
	e.tally.note(en.local, goal)
	en.tried, en.triedOf, en.busy, en.fault = a, en.toldOf, true, ""
	return []Action{a}
}

// goal returns what the local object should be: as it is if nothing is to change, nil if
// it should not be there. Create, update, revert, adopt and release are all one comparison
// with it.
func (e *Engine) goal(now time.Time, k resource.Key, en *entry) *resource.Object {
	switch {
	case en.local != nil && en.local.Excluded, en.told != nil && en.told.Phase == Excluded:
		return en.local
	case e.owns(k, resource.Spec):
		return e.original(now, en)
	case !en.heard: // nothing is known: wait
		return en.local
	case en.local == nil:
		if en.told == nil || en.told.Phase != Live {
			return nil
		}
		return e.remade(e.mirrored(now, resource.Object{Key: k}, en), en)
	case en.local.Deleting:
		if e.cfg.Rules.Releases(e.cfg.Side) && en.local.Origin.UID != "" {
			return released(*en.local)
		}
		return en.local
	}
	return e.copied(now, *en.local, en)
}

// copied returns what a local object should be whose original, if it has one, is the peer's.
func (e *Engine) copied(now time.Time, o resource.Object, en *entry) *resource.Object {
	t, ours := en.told, o.Origin.UID != ""
	switch {
	case ours && e.foreign(o):
		return &o
	case t == nil || t.Phase == Gone:
		if ours && (en.dead.has(o.Origin.UID) || en.absence == ended) {
			return lose(o)
		}
		e.notice(&o, en)
		return &o
	case !ours:
		if t.Phase != Live || !e.cfg.Rules.Adopts(e.cfg.Side, o) {
			return &o
		}
	case t.Phase == Going:
		return going(o, t)
	case o.Origin.UID != t.UID && o.Origin.By == e.author(t) && en.dead.has(o.Origin.UID) && e.cfg.Rules.Recreates(o.Key.Kind, t.Parts[resource.Meta]):
		return lose(o)
	}
	return e.mirrored(now, o, en)
}

// going returns what becomes of a copy whose original is being deleted: it is deleted in
// the same way, that is with the same finalizer of Argo CD's.
func going(o resource.Object, t *Record) *resource.Object {
	m, want := resource.ParseMetadata(o.Parts[resource.Meta]), resource.ParseMetadata(t.Parts[resource.Meta])
	m.Finalizers = want.Finalizers
	if text := m.Text(); text != o.Parts[resource.Meta] {
		o.Parts[resource.Meta] = text
		return &o
	}
	return nil
}

// lose returns what becomes of a copy whose original is gone: what was deployed stays, so
// it is released first and then removed.
func lose(o resource.Object) *resource.Object {
	if r := released(o); *r != o {
		return r
	}
	return nil
}

// released returns o without Argo CD's finalizer.
func released(o resource.Object) *resource.Object {
	m := resource.ParseMetadata(o.Parts[resource.Meta])
	m.Finalizers = nil
	o.Parts[resource.Meta] = m.Text()
	return &o
}

// mirrored returns what a copy should be.
func (e *Engine) mirrored(now time.Time, o resource.Object, en *entry) *resource.Object {
	if o.Origin.UID != "" && o.Origin.UID != en.told.UID && e.owns(o.Key, resource.Operation) {
		// What the requests were for is no more.
		o.Parts[resource.Operation], o.Parts[resource.OpID], o.Parts[resource.Refresh] = "", "", ""
	}
	o.Origin = resource.Origin{UID: en.told.UID, By: e.author(en.told)}
	e.mirror(&o, en.told, en)
	e.operate(now, &o, en.told, en)
	if en.nudged {
		o.Parts[resource.RefreshMark] = cmp.Or(o.Parts[resource.RefreshMark], resource.RefreshNormal)
	}
	e.notice(&o, en)
	return &o
}

// remade returns what a copy should be that is not there: one that somebody here has deleted
// may be asked to bring back what it had deployed. Of what was done while nobody looked
// nothing is known, and nothing is asked.
func (e *Engine) remade(o *resource.Object, en *entry) *resource.Object {
	if en.was == en.told.UID && o.Parts[resource.Operation] == "" && e.cfg.Rules.Resyncs(e.cfg.Side, o.Key.Kind) {
		o.Parts[resource.Operation] = resource.SyncOperation(o.Parts[resource.Spec], "argocd-agent")
	}
	return o
}

// author returns who is to be marked as the writer of a row. A principal knows it from the
// link, whatever the row says.
func (e *Engine) author(t *Record) string {
	if e.cfg.Side == resource.Principal {
		return e.cfg.Peer
	}
	return t.By
}

// foreign reports whether a copy is somebody else's, and not to be taken over.
func (e *Engine) foreign(o resource.Object) bool {
	return !e.cfg.Rules.Inherits(e.cfg.Side) && o.Origin.By != e.cfg.Peer
}

// original returns what an object of our own should be: the peer adds its parts, and lets
// it go once its copy is gone.
func (e *Engine) original(now time.Time, en *entry) *resource.Object {
	if en.local == nil {
		return nil
	}
	o, t := *en.local, en.told
	if t == nil || t.UID != o.UID {
		t = &Record{} // none, or of an object that had this name before
	}
	if t.Phase == Gone {
		if o.Deleting && e.cfg.Rules.Confirmed(o.Key.Kind) {
			return released(o)
		}
		return &o
	}
	if en.heard {
		e.mirror(&o, t, en)
	}
	e.operate(now, &o, t, en)
	if en.unfit.text != "" && e.cfg.Rules.Mirrors(e.cfg.Side, o.Key.Kind, resource.Fault) {
		o.Parts[resource.Fault] = en.unfit.text
	}
	e.notice(&o, en)
	return &o
}

// mirror gives o the peer's parts.
func (e *Engine) mirror(o *resource.Object, t *Record, en *entry) {
	for p := range resource.NumParts {
		if !e.cfg.Rules.Mirrors(e.cfg.Side, o.Key.Kind, p) || p == resource.OpState {
			continue
		}
		want := t.Parts[p]
		if p == resource.Meta {
			want = en.overlaid(overlay{o.Parts[p], want, o.Ours})
		}
		if !en.keeps(p, want, o.Parts[p]) {
			o.Parts[p] = want
		}
	}
}

// overlaid returns what metadata is to be. What is as it should be is not taken apart each time that
// something else of the object is looked at.
func (en *entry) overlaid(m overlay) string {
	if m == en.laidOver {
		return m.have
	}
	have, ours := resource.ParseMetadata(m.have), resource.ParseMetadata(m.ours)
	want := have.Overlay(resource.ParseMetadata(m.want), ours.Overlay(en.keys, resource.Metadata{})).Text()
	if want == m.have {
		en.laidOver = m
	}
	return want
}

// owns reports whether part p of k is ours to say.
func (e *Engine) owns(k resource.Key, p resource.Part) bool {
	return e.cfg.Rules.Owns(e.cfg.Side, k.Kind, p)
}
