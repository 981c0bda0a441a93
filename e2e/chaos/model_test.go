package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A key names an object of an agent as its owner does.
type key struct {
	kind resource.Kind
	name string
}

func (k key) String() string { return fmt.Sprintf("%s %s", k.kind, k.name) }

// An object is what the model knows of one.
type object struct {
	n           int // the number in its spec
	labels      map[string]string
	annotations map[string]string
	finalizer   string // Argo CD's, "" if it has none
	kept        bool   // nobody ever deletes it or its copy, and what is asked of it runs
	quiet       bool   // nothing is asked of it, so it may be ignored
	renewed     bool   // it was made anew in this round
	begun       bool   // a sync was asked for that somebody is to end
	settled     bool   // it was there, and all was well, when the storm began
	ignored     where
	seen        []string // the revisions of which the copy has one if it is ignored now
}

// A where says on which object of two.
type where string

const (
	nowhere    where = ""
	onOriginal where = "the original"
	onCopy     where = "the copy"
)

func (o *object) cascades() bool { return o.finalizer != "" }

// holdings are what an agent and the hub are to have in common.
type holdings struct {
	mode    resource.Mode
	objects map[key]*object
	gone    map[key]bool // what was there once, and is not: whether its name is free at once
	unseen  int          // deletions of this round that may go unseen
}

// A model is what is to be there in the end, by agent.
type model []*holdings

func newModel(modes ...resource.Mode) model {
	var m model
	for _, mode := range modes {
		m = append(m, &holdings{mode: mode, objects: map[key]*object{}, gone: map[key]bool{}})
	}
	return m
}

// kinds returns those that an agent of a mode has, and that people make.
func kinds(m resource.Mode) []resource.Kind {
	if m == resource.Autonomous {
		return []resource.Kind{resource.Project, resource.Application}
	}
	return []resource.Kind{resource.Project, resource.Secret, resource.Application}
}

// keys returns those objects that f accepts, in order.
func (h *holdings) keys(f func(key, *object) bool) []key { return sorted(h.objects, f) }

func sorted[V any](all map[key]V, f func(key, V) bool) (out []key) {
	for k, v := range all {
		if f(k, v) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b key) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	return out
}

// apply does to the model what an act of the owner does to the cluster. It is the only place
// where the model changes.
func (h *holdings) apply(a act) {
	o := h.objects[a.key]
	switch a.verb {
	case create:
		h.objects[a.key] = &object{n: a.n, labels: map[string]string{}, annotations: map[string]string{}, finalizer: a.finalizer, kept: a.kept, quiet: a.quiet}
		delete(h.gone, a.key)
	case edit:
		o.n = a.n
		if o.ignored == nowhere {
			o.seen = append(o.seen, revision(o.n))
		}
	case spoil:
		o.seen = append(o.seen, vandal(a.n))
	case ignore:
		o.ignored = a.where
	case heed:
		o.ignored = nowhere
		o.seen = append(o.seen, revision(o.n))
	case beginHub, beginSpoke:
		o.begun = true
	case endHub, endSpoke:
		o.begun = false
	case label:
		turn(o.labels, a)
	case annotate:
		turn(o.annotations, a)
	case remove:
		h.gone[a.key] = !o.cascades() && a.policy == metav1.DeletePropagationBackground
		delete(h.objects, a.key)
	case renew:
		h.objects[a.key] = &object{n: a.n, labels: map[string]string{}, annotations: map[string]string{}, renewed: true}
	}
}

// turn sets a mark to the value of an act, or takes it away.
func turn(marks map[string]string, a act) {
	marks[a.mark] = a.value
	if a.value == "" {
		delete(marks, a.mark)
	}
}

// revision and vandal are what the specs of Applications say.
func revision(n int) string { return fmt.Sprint("r", n) }
func vandal(n int) string   { return fmt.Sprint("vandal-", n) }

// settle is called when everything is as the model says.
func (m model) settle() {
	for _, h := range m {
		for o := range maps.Values(h.objects) {
			o.settled = true
			if o.ignored == nowhere {
				o.seen = []string{revision(o.n)}
			}
		}
	}
}

// rest begins another round.
func (m model) rest() {
	for _, h := range m {
		h.unseen = 0
		for o := range maps.Values(h.objects) {
			o.renewed = false
		}
	}
}
