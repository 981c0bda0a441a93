package engine

import (
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Fault says why one object is not in step, where time alone will not mend it.
type Fault struct {
	Cause Cause
	Text  string
	Of    Body // the row that it is about, ours where it is Unfit; nil if it cannot be read
}

// A Cause says what kind of Fault it is.
type Cause uint8

// The causes.
const (
	Puzzling Cause = iota // the peer's row cannot be read
	Taken                 // an object that is not the peer's has the place
	Rejected              // the store refuses what the peer's row says
	Unfit                 // the link does not take our row
	Stubborn              // writing what the peer's row says fails again and again, and is tried further
)

// stubborn is how often a write must have failed before that is called a fault.
const stubborn = 5

// Faults returns what is wrong with a key.
func (e *Engine) Faults(k resource.Key) (out []Fault) {
	en := e.entries[k]
	if en == nil {
		return nil
	}
	if en.opaque.Row != "" {
		out = append(out, Fault{Cause: Puzzling, Text: en.opaque.Text})
	}
	if text := e.taken(en); text != "" {
		out = append(out, Fault{Taken, text, *en.told})
	}
	if en.fault != "" && en.told != nil {
		out = append(out, Fault{Rejected, en.fault, *en.told})
	}
	if en.fault == "" && en.tries >= stubborn && en.told != nil {
		out = append(out, Fault{Stubborn, en.failure, *en.told})
	}
	if en.unfit.text != "" {
		out = append(out, Fault{Unfit, en.unfit.text, e.row(k, en)})
	}
	return out
}

// taken says why the peer's row has no place here, "" if it has.
func (e *Engine) taken(en *entry) string {
	o, t := en.local, en.told
	switch {
	case o == nil || t == nil || t.Phase != Live || e.owns(o.Key, resource.Spec):
		return ""
	case o.Origin.UID == "" && !e.cfg.Rules.Adopts(e.cfg.Side, *o):
		return "an object of this name is there already, and the adoption policy leaves it alone"
	case o.Origin.UID != "" && e.foreign(*o):
		return "the object of this name is a copy that " + o.Origin.By + " has written"
	}
	return ""
}

// fault says to the peer why the local object is not what its row says, "" if it is, or
// will soon be.
func (e *Engine) fault(en *entry) string {
	switch t := en.told; {
	case en.opaque.Row != "":
		if en.faulty() == "" {
			return ""
		}
		return "the last change cannot be read: " + en.opaque.Text
	case en.denied && t != nil && t.Phase <= Going:
		return observed
	case t == nil || t.Phase > Going:
		return ""
	case en.fault == "" && en.tries >= stubborn:
		return "it fails, and is tried again: " + en.failure
	}
	if text := e.taken(en); text != "" {
		return text
	}
	return en.fault
}

// faulty returns the original that a fault is about.
func (en *entry) faulty() string {
	switch {
	case en.opaque.Row != "":
		return en.opaque.UID
	case en.told != nil:
		return en.told.UID
	}
	return ""
}

// puzzle takes in that the peer's row cannot be read. What was read before stays in force,
// and if it is the same row there is nothing to be read.
func (e *Engine) puzzle(en *entry, k resource.Key, u Unreadable) {
	before := en.row()
	if u.Row == en.toldOf {
		en.opaque = opaque{}
	} else {
		en.opaque = opaque{u, u.Row == en.opaque.Row}
	}
	if e.puzzling[k] = true; en.opaque.Row == "" {
		delete(e.puzzling, k)
	}
	e.copy.set(k, before, en.row())
	e.stirred = e.stirred || before != en.row()
}

// solve forgets rows that could not be read, and that are there no more: else a copy of the
// peer's table that lacks them would not be whole.
func (e *Engine) solve(now time.Time) (out []Action) {
	if !e.InStep() {
		return nil
	}
	for _, k := range sorted(e.puzzling) {
		delete(e.puzzling, k)
		en := e.entries[k]
		if en == nil || en.opaque.Row == "" || en.opaque.again {
			continue
		}
		en.opaque = opaque{}
		e.assume(k, en)
		out = append(out, e.decide(now, k, en)...)
	}
	return out
}

// retry forgets what is known to be impossible of a key: it will be found out anew.
func (e *Engine) retry(now time.Time, k resource.Key) []Action {
	en := e.entries[k]
	if en == nil {
		return nil
	}
	before := en.row()
	en.opaque = opaque{}
	e.copy.set(k, before, en.row())
	en.unfit, en.fault, en.tries = unfit{}, "", 0
	if en.anew = en.busy; !en.busy {
		en.tried = nil
	}
	delete(e.failed, k)
	if en.lost {
		e.failed[k] = true
	}
	return e.decide(now, k, en)
}
