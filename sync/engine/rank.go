package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// An order keeps copies of different kinds in the order in which they need each other:
// what is made ascends, what goes descends. Argo CD cannot end the deletion of an
// Application whose project has gone before it.
type order struct {
	laying  map[resource.Kind]int // how many copies are being made or changed, at their first try
	leaving map[resource.Key]bool // copies of which the peer's table says that they are to go
	waiting map[resource.Key]bool // to be looked at again when either may have changed; true: at a Tick
}

func newOrder() order {
	return order{laying: map[resource.Kind]int{}, leaving: map[resource.Key]bool{}, waiting: map[resource.Key]bool{}}
}

// follow takes note of whether a copy is leaving.
func (e *Engine) follow(k resource.Key, en *entry) {
	o, t := en.local, en.told
	if o == nil || o.Origin.UID == "" || o.Excluded || e.foreign(*o) || e.owns(k, resource.Spec) ||
		t != nil && (t.Phase == Excluded || t.Phase == Live && !o.Deleting) {
		delete(e.leaving, k)
		return
	}
	e.leaving[k] = true
}

// waits reports whether a copy must stay as it is because of copies of other kinds, and
// has it looked at again if so. goal is nil if the copy is to go: that waits for the whole
// of the peer's table, too, or it could not be known what else is to go.
func (e *Engine) waits(k resource.Key, en *entry, goal *resource.Object) bool {
	if e.owns(k, resource.Spec) {
		return false
	}
	wait, rank := false, k.Kind.Rank()
	switch {
	case goal != nil:
		for kind, n := range e.laying {
			wait = wait || n > 0 && kind.Rank() < rank && en.tries == 0
		}
	case rank < highest:
		wait = !e.InStep()
		for other := range e.leaving {
			wait = wait || other.Kind.Rank() > rank
		}
	}
	if wait {
		e.waiting[k] = goal == nil
	}
	return wait
}

// highest is the rank of what nothing else needs.
var highest = len(resource.Kinds()) - 1

// lay takes note that a copy is being made or changed. What has failed before delays no
// other.
func (e *Engine) lay(k resource.Key, en *entry, goal *resource.Object) {
	if goal != nil && en.tries == 0 && !e.owns(k, resource.Spec) {
		en.laid = true
		e.laying[k.Kind]++
	}
}

// settled takes note that this has ended.
func (e *Engine) settled(k resource.Key, en *entry) {
	if en.laid {
		en.laid = false
		e.laying[k.Kind]--
	}
}

// resume looks again at what waits for copies of other kinds.
func (e *Engine) resume(now time.Time, tick bool) (out []Action) {
	for _, k := range ranked(e.waiting) {
		if e.waiting[k] && !tick {
			continue
		}
		delete(e.waiting, k)
		if en := e.entries[k]; en != nil {
			out = append(out, e.decide(now, k, en)...)
		}
	}
	return out
}

// welcome has Applications refreshed that were invalid while a project of theirs was not
// there: Argo CD would not look at them again for minutes.
func (e *Engine) welcome(now time.Time, k resource.Key) (out []Action) {
	if k.Kind != resource.Project || e.owns(k, resource.Spec) {
		return nil
	}
	for _, l := range sorted(e.entries) {
		en := e.entries[l]
		if en.local == nil || en.denied || !e.owns(l, resource.Status) || !resource.Invalid(en.local.Parts[resource.Status]) {
			continue
		}
		en.nudged = true
		out = append(out, e.decide(now, l, en)...)
	}
	return out
}

// ranked returns the keys of m by rank, and each rank sorted.
func ranked[V any](m map[resource.Key]V) []resource.Key {
	keys := sorted(m)
	slices.SortStableFunc(keys, func(a, b resource.Key) int { return cmp.Compare(a.Kind.Rank(), b.Kind.Rank()) })
	return keys
}
