package engine

import (
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// observed is what an agent says of an object of which it Withholds what is wanted. A
// principal knows it by its text: it is no fault, but something that waits for a user there.
const observed = "the agent only observes, and does not write this"

// observing is what a principal tells its users of that.
func (e *Engine) observing() string {
	return "agent " + e.cfg.Peer + " only observes, and does not write this; see argocd-agentctl plan " + e.cfg.Peer
}

// A Change is what one local object is to become, and has not yet.
type Change struct {
	Key resource.Key
	Is  *resource.Object // nil: there is none
	// Becomes are what it is made into, one after the other; nil is that it is removed, or is
	// waited for until it has vanished.
	Becomes []*resource.Object
}

// farthest is how many steps of a Change are looked ahead: it is released, removed, and
// made anew.
const farthest = 4

// Plan returns all that this side would change by now in its store, whether that is under
// way, waits or is Withheld, sorted by key. It is a level like all else: what is not wanted
// any more is not in it.
func (e *Engine) Plan(now time.Time) (all []Change) {
	if !e.open {
		return nil
	}
	for _, k := range ranked(e.entries) {
		en := *e.entries[k] // looked at as if
		c := Change{Key: k, Is: en.local}
		for len(c.Becomes) < farthest {
			goal := e.goal(now, k, &en)
			if goal == nil && en.local == nil || goal != nil && en.local != nil && *goal == *en.local {
				break
			}
			c.Becomes = append(c.Becomes, goal)
			en.local = goal
		}
		if len(c.Becomes) > 0 {
			all = append(all, c)
		}
	}
	return all
}

// Knows reports whether there is anything that both sides may have to say of k: the peer
// names it, or there is a copy of what it once named, or an original of ours.
func (e *Engine) Knows(k resource.Key) bool {
	en := e.entries[k]
	return en != nil && (en.told != nil || en.local != nil && (en.local.Origin.UID != "" || e.owns(k, resource.Spec)))
}
