package engine

import (
	"slices"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// An Account says how one object stands on one side: what is known of it, and what keeps it
// from being what it should be. It is for people.
type Account struct {
	Known bool // there is anything to say of it

	Here     bool // there is an object of that name here
	Owned    bool // it is ours to say what it is to be
	Copy     bool // it is marked as a copy
	Deleting bool
	Excluded bool // it is not to be synchronised
	Status   string

	Said      resource.Digest // our row
	Lost      bool            // it may not be in the log
	Told      resource.Digest // the peer's row, as far as it could be read
	ToldPhase Phase

	Settled bool // the object is what it should be
	Writing bool
	Tries   int       // how often the write that is wanted has failed
	Retry   time.Time // when it is tried again, if it has failed
	Failure string    // why it failed last

	Taken      string // an object that is not the peer's has the place: why
	Refused    string // the store refuses what the peer's row says
	Unreadable string // why the peer's last row cannot be read
	Unfit      string // why the link does not take our row
	Withheld   bool   // a user here keeps it from being written
	Held       bool   // its deletion waits for approval
	Whole      bool   // all of the peer's table is known
	// Awaits names objects for which it waits, three at most: what goes waits for what needs it, and what
	// comes for what it needs.
	Awaits []string

	Operation string // what is to run on it or runs, by Argo CD's word; "" is nothing
	Asked     bool   // the peer asks for an operation that was not taken yet
	Fault     string // the reason that the object itself bears
	Pending   string // what the object itself says that it waits for
}

// Account returns how an object stands. It changes nothing.
func (e *Engine) Account(now time.Time, k resource.Key) Account {
	en := e.entries[k]
	if en == nil {
		return Account{Whole: e.InStep()}
	}
	a := Account{
		Known: en.local != nil || en.told != nil || en.sent != "" || en.opaque.Row != "", Owned: e.owns(k, resource.Spec),
		Said: en.sent, Lost: en.lost, Told: en.toldOf, Writing: en.busy, Tries: en.tries, Failure: en.failure,
		Taken: e.taken(en), Refused: en.fault, Unreadable: en.opaque.Text, Unfit: en.unfit.text, Withheld: en.denied, Held: en.held,
		Whole: e.InStep(), Awaits: e.awaited(k, en),
	}
	if en.tries > 0 {
		a.Retry = en.retry
	}
	if en.told != nil {
		a.ToldPhase = en.told.Phase
		id := en.told.Parts[resource.OpID]
		a.Asked = !a.Owned && en.told.Parts[resource.Operation] != "" && (en.local == nil || en.local.Parts[resource.OpID] != id)
	}
	if o := en.local; o != nil {
		a.Here, a.Copy, a.Deleting, a.Excluded, a.Status = true, o.Origin.UID != "", o.Deleting, o.Excluded, o.Parts[resource.Status]
		a.Operation, a.Fault, a.Pending = o.Parts[resource.Operation], o.Parts[resource.Fault], o.Parts[resource.Pending]
	}
	look := *en // looked at as if
	goal := e.goal(now, k, &look)
	a.Settled = goal == nil && en.local == nil || goal != nil && en.local != nil && *goal == *en.local
	return a
}

// awaited returns for which objects that of k waits: see waits.
func (e *Engine) awaited(k resource.Key, en *entry) (names []string) {
	going, waits := e.waiting[k]
	if !waits {
		return nil
	}
	const most = 3
	for _, other := range ranked(e.entries) {
		above, below := other.Kind.Rank() > k.Kind.Rank(), other.Kind.Rank() < k.Kind.Rank()
		if going && above && e.leaving[other] || !going && below && e.entries[other].laid {
			names = append(names, other.String())
		}
	}
	return names[:min(len(names), most)]
}

// Named returns the keys of a kind that have a name, in whatever namespace, of which there is
// anything to say, sorted.
func (e *Engine) Named(kind resource.Kind, name string) (keys []resource.Key) {
	for k := range e.entries {
		if k.Kind == kind && k.Name == name {
			keys = append(keys, k)
		}
	}
	for _, a := range e.theirs { // of which nothing may be here any more
		if a.Key.Kind == kind && a.Key.Name == name {
			keys = append(keys, a.Key)
		}
	}
	slices.SortFunc(keys, resource.Key.Compare)
	return slices.Compact(keys)
}

// News reports whether a message is one that the Engine takes in, and not one that a later one
// of its key has overtaken.
func (e *Engine) News(r Received) bool {
	en := e.entries[r.Message.Key]
	if en == nil {
		return r.At > e.stale
	}
	return r.At > en.at
}
