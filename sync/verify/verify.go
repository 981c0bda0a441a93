// Package verify says whether two stores agree, from nothing but what is in them. It
// shares no code with the engine that keeps them in step, only the vocabulary: what it
// takes to be right is written down here a second time.
package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Options say what is compared.
type Options struct {
	Mode  resource.Mode // of the agent
	Hub   string        // the hub's identity; "" takes any
	Agent string        // the agent's name; "" takes any
}

// What says in what respect two objects differ.
type What string

// The kinds of Difference.
const (
	Missing    What = "missing"         // an original has no copy
	Extra      What = "extra"           // a copy has no original
	Undeleted  What = "not deleted"     // an Application is being deleted, its copy is not
	Vanishing  What = "being deleted"   // a copy is being deleted, its original is not
	Origin     What = "origin"          // a copy is of something else
	Spec       What = "spec"            // the copy's is not the original's
	Label      What = "label"           // the same of one label
	Annotation What = "annotation"      // and of one annotation
	Finalizers What = "finalizers"      // and of Argo CD's own finalizers
	Status     What = "status"          // the hub's is not the spoke's
	OpState    What = "operation state" // the same, while nothing is requested
)

// A Difference is one thing in which two stores do not agree.
type Difference struct {
	Key    resource.Key
	What   What
	Hub    string // what the hub has, shortened around the first difference; "" is nothing
	Spoke  string // what the spoke has
	Reason string // the likely one, "" if there is none to tell
}

// String returns the difference as one line.
func (d Difference) String() string {
	line := fmt.Sprintf("%s: %s: hub %s, spoke %s", d.Key, d.What, orNothing(d.Hub), orNothing(d.Spoke))
	if d.Reason != "" {
		line += " (" + d.Reason + ")"
	}
	return line
}

func orNothing(text string) string {
	if text == "" {
		return "has nothing"
	}
	return "has " + text
}

// Compare returns in what the objects of a hub and of a spoke do not agree, sorted by key.
// Both are keyed, and their parts written, as on the link between the two. Excluded
// objects and objects on the copies' side that are nobody's copy are not compared, but
// where one of the latter has the place of a copy.
func Compare(o Options, hub, spoke []resource.Object) []Difference {
	hubs, spokes := byKey(hub), byKey(spoke)
	keys := maps.Clone(hubs)
	maps.Copy(keys, spokes)
	var out []Difference
	for _, k := range slices.SortedFunc(maps.Keys(keys), resource.Key.Compare) {
		p := pair{options: o, key: k}
		if h, ok := hubs[k]; ok {
			p.hub = &h
		}
		if s, ok := spokes[k]; ok {
			p.spoke = &s
		}
		out = append(out, p.compare()...)
	}
	return out
}

func byKey(objects []resource.Object) map[resource.Key]resource.Object {
	out := make(map[resource.Key]resource.Object, len(objects))
	for _, o := range objects {
		out[o.Key] = o
	}
	return out
}

// A pair is what both sides have under one key; nil is nothing.
type pair struct {
	options    Options
	key        resource.Key
	hub, spoke *resource.Object
	found      []Difference
}

// original returns the side that is the truth for spec and existence.
func (p *pair) original() *resource.Object {
	if p.options.Mode == resource.Autonomous {
		return p.spoke
	}
	return p.hub
}

func (p *pair) copy() *resource.Object {
	if p.options.Mode == resource.Autonomous {
		return p.hub
	}
	return p.spoke
}

// writer returns whose mark a copy carries.
func (p *pair) writer() string {
	if p.options.Mode == resource.Autonomous {
		return p.options.Agent
	}
	return p.options.Hub
}

func (p *pair) compare() []Difference {
	original, made := p.original(), p.copy()
	switch {
	case original != nil && original.Excluded, made != nil && made.Excluded:
	case original == nil:
		p.orphan(*made)
	case made == nil:
		p.lonely(*original)
	default:
		p.both(*original, *made)
	}
	return p.found
}

// foreign reports whether a copy was written by somebody else than is asked about.
func (p *pair) foreign(made resource.Object) bool {
	return p.writer() != "" && made.Origin.By != p.writer()
}

// orphan judges what has no original.
func (p *pair) orphan(made resource.Object) {
	switch {
	case made.Origin == resource.Origin{}:
	case p.options.Mode == resource.Autonomous && p.foreign(made):
		// It is another agent's, whose own affair it is.
	case p.foreign(made):
		p.add(Extra, "it was written by "+made.Origin.By+", and is kept until its removal is approved")
	case made.Deleting:
		p.add(Extra, "it is being deleted")
	default:
		p.add(Extra, "its removal has not arrived, or waits for approval")
	}
}

// lonely judges an original without a copy.
func (p *pair) lonely(original resource.Object) {
	if !original.Deleting {
		p.add(Missing, original.Parts[resource.Fault])
	}
}

func (p *pair) both(original, made resource.Object) {
	switch {
	case made.Origin == resource.Origin{}:
		p.add(Origin, "an object of this name was there before, and was not taken over")
		return
	case made.Origin.UID != original.UID:
		p.add(Origin, "it is the copy of another object that had this name, "+made.Origin.UID+", not of "+original.UID)
		return
	case p.foreign(made):
		p.add(Origin, "it was written by "+made.Origin.By)
		return
	case original.Deleting && made.Deleting:
		return // both are on their way out
	case original.Deleting && p.announced():
		p.add(Undeleted, "the deletion has not arrived, or was refused")
		return
	case made.Deleting:
		p.add(Vanishing, "it is made again once it has vanished")
		return
	}
	p.parts()
	p.metadata(original, made)
}

// announced reports whether a deletion is made known while it is under way: of a managed
// Application it is, and every other copy stays until its original has gone.
func (p *pair) announced() bool {
	return p.options.Mode == resource.Managed && p.key.Kind == resource.Application
}

// parts compares what both sides have in full.
func (p *pair) parts() {
	reason := p.hub.Parts[resource.Fault]
	p.part(Spec, resource.Spec, reason)
	p.part(Status, resource.Status, "")
	// As long as a request stands the hub may speak of it before the spoke does.
	if p.hub.Parts[resource.Operation]+p.hub.Parts[resource.OpID]+p.spoke.Parts[resource.Operation] == "" {
		p.part(OpState, resource.OpState, "")
	}
}

func (p *pair) part(what What, part resource.Part, reason string) {
	h, s := p.hub.Parts[part], p.spoke.Parts[part]
	if h == s {
		return
	}
	h, s = around(h, s)
	p.found = append(p.found, Difference{p.key, what, h, s, reason})
}

// add notes a difference that is about the objects as a whole, and names them.
func (p *pair) add(what What, reason string) {
	p.found = append(p.found, Difference{p.key, what, name(p.hub), name(p.spoke), reason})
}

func name(o *resource.Object) string {
	if o == nil {
		return ""
	}
	text := "object " + o.UID
	if o.Origin.UID != "" {
		text += ", copy of " + o.Origin.UID
	}
	if o.Deleting {
		text += ", being deleted"
	}
	return text
}

// metadata compares the keys that the original has, and those that were written to the
// copy for one that the original has no more. All others are not ours to compare.
func (p *pair) metadata(original, made resource.Object) {
	from, to := resource.ParseMetadata(original.Parts[resource.Meta]), resource.ParseMetadata(made.Parts[resource.Meta])
	ours := resource.ParseMetadata(made.Ours)
	p.values(Label, from.Labels, to.Labels, ours.Labels)
	p.values(Annotation, from.Annotations, to.Annotations, ours.Annotations)
	if a, b := strings.Join(from.Finalizers, " "), strings.Join(to.Finalizers, " "); a != b {
		p.sides(Finalizers, a, b, "")
	}
}

func (p *pair) values(what What, from, to, ours map[string]string) {
	keys := maps.Clone(from)
	if keys == nil {
		keys = map[string]string{}
	}
	for k := range ours {
		keys[k] = ""
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		a, wanted := from[k]
		b, there := to[k]
		switch {
		case wanted && !there:
			p.sides(what, k+"="+a, "", "")
		case !wanted && there:
			p.sides(what, "", k+"="+b, "its owner has removed it")
		case a != b:
			p.sides(what, k+"="+a, k+"="+b, "")
		}
	}
}

// sides notes a difference between the original's and the copy's text.
func (p *pair) sides(what What, original, made, reason string) {
	h, s := original, made
	if p.options.Mode == resource.Autonomous {
		h, s = made, original
	}
	h, s = around(h, s)
	p.found = append(p.found, Difference{p.key, what, h, s, reason})
}
