package engine

import (
	"slices"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Situation is what an Engine decides by when the two sides do not have the same: a row
// of testdata/adoption.txt or testdata/deletion.txt without what comes of it. The zero
// Situation is that of a key of which there is nothing to decide.
type Situation struct {
	Side   string // "hub" or "spoke"
	Here   string // what this side has
	Peer   string // what the peer is known to say
	Policy string // which counts, and where it is from; "" if none does
}

// Adoption reports whether it is about what becomes of what is here when the peer has an
// original of that name. Else it is about the end of one of the two.
func (s Situation) Adoption() bool {
	return strings.HasPrefix(s.Peer, "live") && !strings.Contains(s.Here, "being deleted")
}

// String returns the row as it stands in the file.
func (s Situation) String() string {
	return strings.Join([]string{s.Side, s.Here, s.Peer, s.Policy}, " | ")
}

// Situation returns that of a key.
func (e *Engine) Situation(k resource.Key) Situation {
	en := e.entries[k]
	if !e.open || en == nil {
		return Situation{}
	}
	s := Situation{Side: map[resource.Side]string{resource.Principal: "hub", resource.Agent: "spoke"}[e.cfg.Side]}
	if e.owns(k, resource.Spec) {
		s.Here, s.Peer = e.originalHere(k, en), e.ofOriginal(k, en)
	} else {
		s.Here, s.Peer, s.Policy = e.copyHere(en), e.ofCopy(en), e.policy(k, en)
	}
	if s.Here == "" || s.Peer == "" {
		return Situation{}
	}
	return s
}

// originalHere says what there is of an object of our own that is going.
func (e *Engine) originalHere(k resource.Key, en *entry) string {
	o := en.local
	switch {
	case o == nil && en.died:
		return "nothing, seen to go"
	case o == nil || !o.Deleting:
		return ""
	case o.Excluded:
		return "an excluded original, being deleted"
	case e.cfg.Rules.Confirmed(k.Kind):
		return "an original, being deleted" + finalizer(o)
	}
	return "an original that waits for no copy, being deleted"
}

// ofOriginal says what the peer says of an object of our own.
func (e *Engine) ofOriginal(k resource.Key, en *entry) string {
	o, t := en.local, en.told
	switch {
	case o == nil, o.Excluded, !e.cfg.Rules.Confirmed(k.Kind):
		return "anything"
	case t == nil:
		return "nothing"
	case t.UID != o.UID:
		return "that of another one"
	case t.Phase == Gone:
		return "that its copy is gone"
	}
	return "that it has a copy"
}

// copyHere says what there is in the place of a copy.
func (e *Engine) copyHere(en *entry) string {
	o, t := en.local, en.told
	switch {
	case t != nil && t.Phase == Excluded:
		return "anything"
	case o == nil:
		return "nothing"
	}
	switch {
	case o.Excluded && o.Origin.UID == "":
		return "an excluded object of its own"
	case o.Excluded:
		return "an excluded copy"
	case o.Deleting && o.Origin.UID == "":
		return "an object of its own, being deleted"
	case o.Deleting:
		return "a copy, being deleted" + finalizer(o)
	case o.Origin.UID == "":
		return "an object of its own"
	case e.foreign(*o):
		return "another agent's copy"
	case t == nil:
		return "its copy" + finalizer(o)
	}
	here := "its copy"
	if o.Origin.UID != t.UID {
		here = "a copy of another original"
	}
	switch {
	case t.Phase == Live && o.Origin.By != e.author(t):
		here += ", written by another hub"
	case t.Phase == Going && propagation(t.Parts[resource.Meta]) != propagation(o.Parts[resource.Meta]):
		here += ", that would go otherwise"
	}
	return here
}

func finalizer(o *resource.Object) string {
	if len(resource.ParseMetadata(o.Parts[resource.Meta]).Finalizers) > 0 {
		return " with its finalizer"
	}
	return " without a finalizer"
}

// ofCopy says what the peer says of the original.
func (e *Engine) ofCopy(en *entry) string {
	o, t := en.local, en.told
	other := o != nil && o.Origin.UID != "" && t != nil && o.Origin.UID != t.UID && !o.Excluded && !e.foreign(*o)
	switch {
	case !en.heard, t == nil && o == nil:
		return ""
	case t != nil && t.Phase == Excluded:
		return "that it is excluded"
	case o != nil && o.Deleting && !o.Excluded:
		return "anything"
	case t == nil && (o.Origin.UID == "" || e.foreign(*o) || o.Excluded):
		return "nothing"
	case t == nil && en.dead.has(o.Origin.UID):
		return "that it was deleted"
	case t == nil && en.absence == ended:
		return "nothing, and few are missing or it is approved"
	case t == nil && en.held:
		return "nothing, and many are missing"
	case t == nil:
		return "nothing, and not yet all else"
	case t.Phase == Going && (o == nil || o.Origin.UID != t.UID || o.Excluded):
		return "that it is being deleted"
	case t.Phase == Going:
		return "that it is being deleted" + propagation(t.Parts[resource.Meta])
	case other && en.dead.has(o.Origin.UID):
		return "live, and that the other was deleted"
	case other:
		return "live, and nothing of the other"
	}
	return "live"
}

// policy says which policy counts.
func (e *Engine) policy(k resource.Key, en *entry) string {
	o, t := en.local, en.told
	if o == nil || t == nil || t.Phase != Live || o.Excluded || o.Deleting {
		return ""
	}
	choose := func(yes bool, names [2]string, annotated string) string {
		name := names[1]
		if yes {
			name = names[0]
		}
		if slices.Contains(names[:], annotated) {
			name += ", by annotation"
		}
		return name
	}
	switch {
	case o.Origin.UID == "" && e.cfg.Side == resource.Principal:
		return "never"
	case o.Origin.UID == "":
		return choose(e.cfg.Rules.Adopts(e.cfg.Side, *o), [2]string{"always", "never"},
			resource.ParseMetadata(o.Parts[resource.Meta]).Annotations[resource.AdoptionAnnotation])
	case o.Origin.By != e.author(t), o.Origin.UID == t.UID, !en.dead.has(o.Origin.UID):
	case k.Kind != resource.Application:
		return "upsert, as for all but Applications"
	default:
		return choose(e.cfg.Rules.Recreates(k.Kind, t.Parts[resource.Meta]), [2]string{"recreate", "upsert"},
			resource.ParseMetadata(t.Parts[resource.Meta]).Annotations[resource.MismatchAnnotation])
	}
	return ""
}

// propagation says which of Argo CD's finalizers there is.
func propagation(meta string) string {
	m := resource.ParseMetadata(meta)
	if len(m.Finalizers) == 0 {
		return ", no cascade"
	}
	_, way, _ := strings.Cut(m.Finalizers[0], "/")
	if way == "" {
		return ", cascade"
	}
	return ", cascade " + way
}

// Does says what an Action of e does, before it is done: "created", "taken over",
// "changed", "released" (Argo CD's finalizer is taken off) or "removed"; "" if it is no
// write.
func (e *Engine) Does(a Action) string {
	w, ok := a.(Write)
	if !ok {
		if _, ok := a.(Remove); ok {
			return "removed"
		}
		return ""
	}
	en := e.entries[w.Object.Key]
	if en.local == nil {
		return "created"
	}
	was, is := *en.local, w.Object
	released := len(resource.ParseMetadata(was.Parts[resource.Meta]).Finalizers) > 0 && len(resource.ParseMetadata(is.Parts[resource.Meta]).Finalizers) == 0
	switch {
	case was.Origin != is.Origin:
		return "taken over"
	case released && (en.told == nil || en.told.Phase != Live || was.Deleting):
		return "released"
	}
	return "changed"
}
