package resource

import "slices"

// A Mode says on which side an agent's configuration is written.
type Mode uint8

// The two modes.
const (
	Managed    Mode = iota // written at the principal, mirrored to the agent
	Autonomous             // written at the agent, mirrored to the principal
)

// String returns "managed" or "autonomous", as labels and flags spell it.
func (m Mode) String() string { return [...]string{"managed", "autonomous"}[m] }

// ParseMode is the inverse of Mode.String.
func ParseMode(text string) (Mode, bool) {
	switch text {
	case "managed":
		return Managed, true
	case "autonomous":
		return Autonomous, true
	}
	return 0, false
}

// A Mismatch says what becomes of a copy whose original was deleted and made anew.
type Mismatch uint8

// The two policies for a source UID that is not the copy's.
const (
	Recreate Mismatch = iota // the copy is deleted and another one created
	Upsert                   // the copy is changed in place
)

// A Recreation says what becomes of a copy that somebody at the agent has deleted, and that
// is made again because its original is there.
type Recreation uint8

// The policies for copies that are made again.
const (
	// Ignored: the copy has what its original says, and begins without a status, for a status
	// never travels to where it is made. What the principal shows follows it: nothing, and
	// then what Argo CD finds.
	Ignored Recreation = iota
	// Cleared: no operation and no status of the copy before is left at either side. That is
	// what comes of Ignored too, and it has a name for those who rely on it.
	Cleared
	// Resynced: besides, the copy is made with a request to sync it, so that what it had
	// deployed comes back where Argo CD does not sync by itself.
	Resynced
)

// Rules say who owns what, and how the two sides of one link behave. They are the
// only place where a Mode is looked at.
type Rules struct {
	Mode     Mode
	Adopt    bool       // whether an object that is nobody's copy is taken over when the peer names its Key
	Mismatch Mismatch   // for copies of an original that is known to be deleted
	Recreate Recreation // for copies that somebody at the agent has deleted
}

// Annotations by which an object overrides Rules.Adopt (set on the object that would
// be adopted) and Rules.Mismatch (set on the original).
const (
	AdoptionAnnotation = "argocd.argoproj.io/adoption-policy"            // "always" or "never"
	MismatchAnnotation = "argocd.argoproj.io/source-uid-mismatch-policy" // "recreate" or "upsert"
)

// Kinds returns the kinds that are synchronised, in the order in which they build on each
// other: an object needs those before it, so what is made is made in this order, and what
// goes, goes in the reverse.
func Kinds() []Kind { return []Kind{ConfigMap, Secret, Project, Application} }

// Rank returns the place of k among Kinds, -1 if it is none of them.
func (k Kind) Rank() int { return slices.Index(Kinds(), k) }

// Sealed reports whether what objects of kind k say is secret: it travels, and is kept on its
// way, only as the two sides of a link can read it.
func (k Kind) Sealed() bool { return k == Secret }

// owners is the table of who owns which part, by mode: the owner in managed mode,
// the owner in autonomous mode. A missing row is a part that does not travel, and that
// objects of the kind do not have.
var owners = map[Kind]map[Part][2]owner{
	Application: {
		Spec:      {hub, spoke},
		Meta:      {hub, spoke},
		Status:    {spoke, spoke},
		OpState:   {spoke, spoke},
		Operation: {hub, hub},
		OpID:      {both, both},
		Fault:     {spoke, nobody},
		Terminate: {hub, hub},
		Refresh:   {both, both},
		// What follows never travels.
		RefreshMark: {nobody, nobody},
		Pending:     {nobody, nobody},
		Held:        {nobody, nobody},
	},
	Project: {
		Spec: {hub, spoke},
		Meta: {hub, spoke},
	},
	Secret: {
		Spec: {hub, nobody},
		Meta: {hub, nobody},
	},
	ConfigMap: {
		Spec: {hub, nobody},
		Meta: {hub, nobody},
	},
}

// An owner is a set of sides.
type owner uint8

const (
	nobody owner = 0
	hub    owner = 1 << Principal
	spoke  owner = 1 << Agent
	both         = hub | spoke // each side says its own, and neither is mirrored
)

// Has reports whether objects of kind k have part p.
func (k Kind) Has(p Part) bool {
	_, ok := owners[k][p]
	return ok
}

// Owns reports whether side s is the one to say what part p of an object of kind k is.
func (r Rules) Owns(s Side, k Kind, p Part) bool { return owners[k][p][r.Mode]&(1<<s) != 0 }

// Mirrors reports whether part p of an object of kind k is the peer's alone, so that
// side s makes its own equal to it. Requests are handed off instead.
func (r Rules) Mirrors(s Side, k Kind, p Part) bool {
	return owners[k][p][r.Mode] == 1<<s.Peer() && p != Operation && p != Terminate
}

// Kinds returns the kinds that travel.
func (r Rules) Kinds() (out []Kind) {
	for _, k := range Kinds() {
		if r.Travels(k) {
			out = append(out, k)
		}
	}
	return out
}

// Travels reports whether a kind is among the Kinds.
func (r Rules) Travels(k Kind) bool { return owners[k][Spec][r.Mode] != nobody }

// Adopts reports whether side s may take over a local object that is nobody's copy. A
// principal never does: a spoke cannot overwrite what is the hub's.
func (r Rules) Adopts(s Side, local Object) bool {
	if s == Principal {
		return false
	}
	switch ParseMetadata(local.Parts[Meta]).Annotations[AdoptionAnnotation] {
	case "always":
		return true
	case "never":
		return false
	}
	return r.Adopt
}

// Recreates reports whether a copy of kind k is to be deleted and created anew when its
// original was; original is the Meta part of the new original. Only an Application is told
// apart from its namesake by what it has deployed: others are changed in place.
func (r Rules) Recreates(k Kind, original string) bool {
	if k != Application {
		return false
	}
	switch ParseMetadata(original).Annotations[MismatchAnnotation] {
	case "recreate":
		return true
	case "upsert":
		return false
	}
	return r.Mismatch == Recreate
}

// Resyncs reports whether side s has a copy of kind k synced that it makes again.
func (r Rules) Resyncs(s Side, k Kind) bool {
	return s == Agent && r.Mode == Managed && k == Application && r.Recreate == Resynced
}

// Confirmed reports whether a deletion of kind k is made known while it is under way, and
// ends only once the copy is known to be gone. Argo CD's own finalizer makes the original
// wait, because of what the Application has deployed; an agent never waits for its principal.
func (r Rules) Confirmed(k Kind) bool { return r.Mode == Managed && k == Application }

// Inherits reports whether side s takes over, in place, a copy that somebody else's row
// made: an agent does when its hub was replaced or restored; what one agent made on a hub
// is never another's.
func (r Rules) Inherits(s Side) bool { return s == Agent }

// Releases reports whether side s itself takes Argo CD's finalizer off a copy that is
// being deleted: where no application controller runs, nobody else would.
func (r Rules) Releases(s Side) bool { return s == Principal }
