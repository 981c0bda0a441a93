package engine

import (
	"slices"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A breaker decides what becomes of copies that the peer's complete table does not have
// although nobody is known to have deleted their originals. A hub that comes up empty,
// restored or looking at the wrong place must not empty its spokes: few absences are
// removals that were missed, many are held until somebody approves.
type breaker struct {
	fuse     Fuse                  // what we remember; its Held are sorted
	stated   resource.Digest       // of the Fuse in our log
	loaded   bool                  // fuse holds what an earlier process remembered
	missing  map[resource.Key]bool // copies without a row of the peer's
	approved resource.Digest       // the peer's user's word
	theirs   []Absent              // what the peer holds back
}

// An absence says what is to become of a copy that the peer's table does not have.
type absence uint8

const (
	noted absence = iota // nothing yet, or it is held
	ended                // it is to be removed
)

const (
	// fewest is how many absences are always taken for removals that were missed.
	fewest = 5
	// fraction is the divisor of the number of copies that gives how many may be.
	fraction = 5
	// memory is for how long removals are counted together.
	memory = 24 * time.Hour
)

// load takes in what an earlier process remembered, and sees the peer's Manifest in its light.
func (e *Engine) load(ev Opened) {
	e.stated = ev.Holds[FuseKey].Digest
	if ev.Fuse != nil && !e.loaded {
		e.fuse = *ev.Fuse
	}
	e.loaded = true
	if e.manifestAt > 0 {
		e.compare(e.manifest)
	}
}

func (b *breaker) unsent(k resource.Key) {
	if k == FuseKey {
		b.stated = "lost"
	}
}

// compare looks whether the peer's store is younger than it was. It is called for each new
// Manifest.
func (e *Engine) compare(m Manifest) {
	f := &e.fuse
	if f.By == "" {
		f.By = m.By
	}
	if m.Peak > m.Since || m.By == f.By && m.Since != f.Since && m.Since < f.Age {
		f.Back = true
	}
	if m.By == f.By {
		f.Since, f.Age = m.Since, max(f.Age, m.Age)
	}
}

// note keeps the set of missing copies.
func (e *Engine) note(k resource.Key, en *entry) {
	o := en.local
	if o != nil && o.Origin.UID != "" && !o.Deleting && !o.Excluded && !e.foreign(*o) && !e.owns(k, resource.Spec) &&
		en.heard && en.told == nil && en.opaque.Row == "" && !en.dead.has(o.Origin.UID) {
		e.missing[k] = true
		return
	}
	delete(e.missing, k)
	en.absence, en.held = noted, false
}

// trip removes the missing copies, or holds them. It does nothing before the copy of the
// peer's table is known to be whole, for then a row may still be on its way.
func (e *Engine) trip(now time.Time) []Action {
	if !e.InStep() {
		return e.state()
	}
	f := &e.fuse
	f.Removed = slices.DeleteFunc(f.Removed, func(r Removal) bool { return r.At <= now.Add(-memory).Unix() })
	if f.By != e.manifest.By {
		f.By, f.Since, f.Age = e.manifest.By, e.manifest.Since, e.manifest.Age
	}
	var absent []Absent
	for _, k := range sorted(e.missing) {
		if en := e.entries[k]; en.absence == noted {
			absent = append(absent, Absent{k, en.local.Origin.UID})
		}
	}
	f.Held = slices.DeleteFunc(f.Held, func(a Absent) bool { return !slices.Contains(absent, a) })
	switch {
	case len(absent) == 0:
		f.Back, f.Age = false, e.manifest.Age
		return e.state()
	case len(f.Held) > 0 && e.approved == HeldDigest(f.Held):
		absent, f.Held = f.Held, nil
	case e.blows(absent):
		f.Held = absent
		return append(e.mark(now, absent), e.state()...)
	default:
		for _, a := range f.fresh(absent) {
			f.Removed = append(f.Removed, Removal{now.Unix(), a})
		}
	}
	var out []Action
	for _, a := range absent {
		en := e.entries[a.Key]
		en.absence = ended
		out = append(out, e.decide(now, a.Key, en)...)
	}
	return append(out, e.state()...)
}

// fresh returns those of absent that are not among the removed: a process may end, or its
// store refuse, between the two.
func (f *Fuse) fresh(absent []Absent) (out []Absent) {
	for _, a := range absent {
		if !slices.ContainsFunc(f.Removed, func(r Removal) bool { return r.Of == a }) {
			out = append(out, a)
		}
	}
	return out
}

// mark has what is held say so.
func (e *Engine) mark(now time.Time, held []Absent) (out []Action) {
	for _, a := range held {
		en := e.entries[a.Key]
		en.held = true
		out = append(out, e.decide(now, a.Key, en)...)
	}
	return out
}

// approve takes in that a user wants what is held to be removed, here or by the peer.
func (e *Engine) approve(ev Approved) []Action {
	if len(e.fuse.Held) > 0 && ev.Of == HeldDigest(e.fuse.Held) {
		e.approved = ev.Of
		return nil
	}
	return send(ApprovalKey, Approval(ev))
}

// blows reports whether so many absent copies must not be removed.
func (e *Engine) blows(absent []Absent) bool {
	f, copies, kinds, gone := &e.fuse, 0, map[resource.Kind]int{}, map[resource.Kind]int{}
	for k, en := range e.entries {
		if en.local != nil && en.local.Origin.UID != "" && !e.owns(k, resource.Spec) {
			copies++
			kinds[k.Kind]++
		}
	}
	if f.Back || len(f.Held) > 0 || len(f.fresh(absent))+len(f.Removed) > max(fewest, copies/fraction) {
		return true
	}
	for _, a := range absent {
		if gone[a.Key.Kind]++; e.entries[a.Key].local.Origin.By != e.manifest.By {
			return true
		}
	}
	for k, n := range gone {
		if n >= 2 && n == kinds[k] {
			return true
		}
	}
	return false
}

// state publishes the Fuse, if there is anything to remember, and if it has changed.
func (e *Engine) state() []Action {
	f := e.fuse
	if !f.Back && len(f.Removed) == 0 && len(f.Held) == 0 {
		if e.stated == "" {
			return nil
		}
		e.stated = ""
		return send(FuseKey, Tombstone{})
	}
	if f.Digest() == e.stated {
		return nil
	}
	e.stated = f.Digest()
	f.Removed, f.Held = slices.Clone(f.Removed), slices.Clone(f.Held)
	return send(FuseKey, f)
}
