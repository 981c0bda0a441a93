package engine

import (
	"slices"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Status says how one side of a link stands.
type Status struct {
	InStep  bool                  // the copy of the peer's table is known to be whole
	Rows    int                   // in our table
	Copied  int                   // rows of the peer's table that are known
	Held    []Absent              // copies that are not removed for absence until somebody approves
	Theirs  []Absent              // the same on the peer's side
	Objects map[resource.Kind]int // that are here, copies and originals
	Failed  int                   // keys whose last write failed, and will be tried again
	Writing int                   // keys of which a write is under way
	Faults  int                   // objects that cannot be kept in step: see Fault
	Pending int                   // objects that say they wait for the agent
	Denied  int                   // keys of which what is wanted is Withheld
	Waiting int                   // objects that are deleted here, and wait until the peer has deleted their copies
	// How often an object was given its Fault, and its Pending, by this process.
	FaultsSet, PendingSet uint64

	// Backlog is how many rows of ours were put into the log by this process that the peer is not
	// known to have, and Oldest when the first of them was; zero if there is none. Sure is when
	// the peer was last known to have all there was; zero if it never was known to this process:
	// then there may be others, from before.
	Backlog      int
	Oldest, Sure time.Time
	// Has is the newest table of the peer's that our copy has equalled, for the peer to know.
	// Lacks is since when the copy equals none; zero if it does.
	Has   Whole
	Lacks time.Time
}

// Status returns how this side stands.
func (e *Engine) Status() Status {
	st := Status{
		InStep: e.InStep(), Rows: e.log.count, Copied: e.copy.count,
		Held: slices.Clone(e.fuse.Held), Theirs: slices.Clone(e.theirs), Failed: len(e.failed),
		Objects: map[resource.Kind]int{}, FaultsSet: e.tally.faults, PendingSet: e.tally.pending,
	}
	for k, en := range e.entries {
		if en.local != nil {
			st.Objects[k.Kind]++
		}
		if en.busy {
			st.Writing++
		}
		if en.local != nil && e.awaits(*en.local) && len(resource.ParseMetadata(en.local.Parts[resource.Meta]).Finalizers) > 0 {
			st.Waiting++
		}
		if en.denied {
			st.Denied++
		}
		if en.local != nil && en.local.Parts[resource.Fault] != "" || len(e.Faults(k)) > 0 {
			st.Faults++
		}
		if en.local != nil && en.local.Parts[resource.Pending] != "" {
			st.Pending++
		}
	}
	e.tellReceipts(&st)
	return st
}

// A tally counts what this process has told its users.
type tally struct{ faults, pending uint64 }

// note takes in that goal is to be written in place of what is there.
func (t *tally) note(is, goal *resource.Object) {
	if goal == nil {
		return
	}
	if is == nil {
		is = &resource.Object{}
	}
	if is.Parts[resource.Fault] == "" && goal.Parts[resource.Fault] != "" {
		t.faults++
	}
	if is.Parts[resource.Pending] == "" && goal.Parts[resource.Pending] != "" {
		t.pending++
	}
}
