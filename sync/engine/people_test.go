package engine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// key returns one of the Applications, or the project, or the Secret where those travel.
func (w *world) key() resource.Key {
	switch i := w.r.IntN(w.names + 2); {
	case i < w.names:
		return app(i)
	case i > w.names && w.rules.Owns(resource.Principal, resource.Secret, resource.Spec):
		return repository
	}
	return project
}

var repository = resource.Key{Kind: resource.Secret, Name: "repository"}

var project = resource.Key{Kind: resource.Project, Name: "project"}

func app(i int) resource.Key {
	return resource.Key{Kind: resource.Application, Name: fmt.Sprint(i)}
}

// label gives o another value of one of the owner's keys, or takes the key away.
func (w *world) label(o *resource.Object) {
	m := meta(*o)
	m.Labels, m.Annotations = maps.Clone(m.Labels), maps.Clone(m.Annotations)
	kv := &m.Labels
	if w.r.IntN(2) == 0 {
		kv = &m.Annotations
	}
	if *kv == nil {
		*kv = map[string]string{}
	}
	k := fmt.Sprint("key", w.r.IntN(2))
	if w.r.IntN(3) == 0 {
		delete(*kv, k)
	} else {
		(*kv)[k] = fmt.Sprint(w.r.IntN(3))
	}
	o.Parts[resource.Meta] = m.Text()
}

func (o objectEdit) ignore(on bool) {
	m := meta(*o.Object)
	m.Labels = maps.Clone(m.Labels)
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	delete(m.Labels, "ignore")
	if on {
		m.Labels["ignore"] = "true"
	}
	o.Parts[resource.Meta] = m.Text()
}

type objectEdit struct{ *resource.Object }

func (o objectEdit) finalizer(on bool) {
	m := meta(*o.Object)
	m.Finalizers = nil
	if on {
		m.Finalizers = []string{ways[1+serialOf(*o.Object)%3]}
	}
	o.Parts[resource.Meta] = m.Text()
}

// annotate sets an annotation.
func (o objectEdit) annotate(key, value string) {
	m := meta(*o.Object)
	m.Annotations = maps.Clone(m.Annotations)
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[key] = value
	o.Parts[resource.Meta] = m.Text()
}

// serialOf returns a number by which objects differ: what is rare goes by it, and not by
// chance.
func serialOf(o resource.Object) int {
	n, _ := strconv.Atoi(strings.TrimLeft(o.UID, "pa"))
	return n
}

// user is somebody who does as he pleases with the objects of one side.
func (w *world) user(n *node) {
	k := w.key()
	if !w.owner(n, k) {
		w.vandal(n, k)
		return
	}
	o, there := n.store[k]
	if !there {
		w.create(n, k)
		return
	}
	switch c := w.r.IntN(16); {
	case c < 4:
		w.remove(n, k, w.r.IntN(2) == 0)
	case c == 4 && o.Deleting && w.r.IntN(3) == 0: // somebody pulls the finalizer
		w.pulled[o.UID] = true
		objectEdit{&o}.finalizer(false)
		n.put(o)
	case c == 5 && !o.Deleting:
		objectEdit{&o}.ignore(!o.Excluded)
		n.put(o)
	case c < 9:
		w.label(&o)
		n.put(o)
	case c == 9 && !o.Deleting && k.Kind == resource.Application:
		objectEdit{&o}.finalizer(len(meta(o).Finalizers) == 0)
		n.put(o)
	default:
		o.Parts[resource.Spec] = w.spec()
		n.put(o)
	}
}

func (w *world) spec() string {
	return []string{`"0"`, `"1"`, `"2"`, `"3"`, `"bad"`, `"4pruned"`, `"5pruned"`, `"huge"`}[w.r.IntN(8)]
}

func (w *world) create(n *node, k resource.Key) {
	o := resource.Object{Key: k, UID: w.uid(n.side)}
	w.born[o.UID] = true
	w.line[k] = append(w.line[k], o.UID)
	o.Parts[resource.Spec] = w.spec()
	objectEdit{&o}.finalizer(k.Kind == resource.Application && w.r.IntN(2) == 0)
	w.label(&o)
	if n.side == resource.Agent && w.r.IntN(3) == 0 || n.side == resource.Principal && serialOf(o)%3 == 1 {
		n.slow[k] = true
	}
	if serialOf(o)%4 == 1 {
		objectEdit{&o}.annotate(resource.MismatchAnnotation, []string{"recreate", "upsert"}[serialOf(o)%8/4])
	}
	if n.side == resource.Principal && k.Kind == resource.Application && w.r.IntN(3) == 0 {
		w.operate(&o)
	}
	n.put(o)
}

// remove deletes an original as argocd does: with all that it deployed or without.
func (w *world) remove(n *node, k resource.Key, all bool) {
	o, there := n.store[k]
	if !there || o.Deleting {
		return
	}
	all = all && k.Kind == resource.Application
	w.deleted[o.UID], w.cascaded[o.UID] = true, all
	objectEdit{&o}.finalizer(all)
	n.put(o)
	n.delete(k)
}

// vandal meddles where it is not his to; he also keeps objects of his own.
func (w *world) vandal(n *node, k resource.Key) {
	if w.r.IntN(4) == 0 {
		k.Name = fmt.Sprint("private", w.r.IntN(2))
	}
	o, there := n.store[k]
	switch c := w.r.IntN(10); {
	case !there:
		if w.r.IntN(3) == 0 {
			w.settleHere(n, k)
		}
	case c < 2:
		w.wiped[o.UID] = true
		n.delete(k)
	case c == 2 && n.side == resource.Agent:
		w.destroyed(n, o) // whose it is, is forgotten
		w.blurred[o.UID] = true
		o.Origin, o.Ours = resource.Origin{}, ""
		n.put(o)
	case c < 5:
		m := meta(o)
		m.Annotations = maps.Clone(m.Annotations)
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations["foreign"] = fmt.Sprint(w.r.IntN(9))
		o.Parts[resource.Meta] = m.Text()
		w.foreign[o.UID] = true
		n.put(o)
	case c == 5:
		ours := resource.ParseMetadata(o.Ours)
		before := meta(o)
		w.label(&o)
		for k := range ours.Labels {
			if before.Labels[k] != meta(o).Labels[k] {
				delete(ours.Labels, k)
			}
		}
		for k := range ours.Annotations {
			if before.Annotations[k] != meta(o).Annotations[k] {
				delete(ours.Annotations, k)
			}
		}
		if !w.fewer(before, meta(o)) {
			return // a key of the owner's that the owner does not have: nobody could tell whose it is
		}
		o.Ours = ours.Text()
		w.blurred[o.UID] = true
		n.put(o)
	case c == 6 && o.Origin.UID != "" && w.r.IntN(4) == 0:
		objectEdit{&o}.ignore(!o.Excluded)
		n.put(o)
	default:
		o.Parts[resource.Spec] = fmt.Sprintf(`"meddled%d"`, w.r.IntN(3))
		n.put(o)
	}
}

// neighbour is an agent whose objects are none of this link's.
const neighbour = "neighbour"

// settleHere makes an object of somebody's own.
func (w *world) settleHere(n *node, k resource.Key) {
	o := resource.Object{Key: k, UID: w.uid(n.side), Parts: resource.Parts{resource.Spec: `"mine"`}}
	switch i := serialOf(o) % 16; {
	case i < 4:
		objectEdit{&o}.annotate(resource.AdoptionAnnotation, []string{"always", "never"}[i%2])
	case i < 6:
		objectEdit{&o}.ignore(true)
	case i < 8 && n.side == resource.Principal:
		o.Origin = resource.Origin{UID: "x" + o.UID, By: neighbour}
	case i < 10:
		n.slow[k] = true
	}
	n.put(o)
}

// fewer reports whether no key was added.
func (w *world) fewer(before, after resource.Metadata) bool {
	return len(after.Labels) <= len(before.Labels) && len(after.Annotations) <= len(before.Annotations)
}

func (w *world) operate(o *resource.Object) {
	id := fmt.Sprint("op", len(w.ops))
	o.Parts[resource.Operation], o.Parts[resource.OpState] = fmt.Sprintf(`{"id":%q}`, id), ""
	w.ops[o.Parts[resource.Operation]] = &operation{of: w.original(w.node[0], *o), key: o.Key, asked: w.now}
}

// argo works on what is on the spoke: reconciles, runs operations, deletes.
func (w *world) argo(k resource.Key) bool {
	n := w.node[1]
	o, ok := n.store[k]
	op := o.Parts[resource.Operation]
	switch {
	case !ok:
		return false
	case o.Deleting && len(meta(o).Finalizers) > 0:
		if of := w.original(n, o); !w.cascaded[of] && !w.wiped[o.UID] {
			w.fail("the workloads of %v were destroyed", o)
		}
		objectEdit{&o}.finalizer(false)
	case op != "" && resource.OperationTerminating(o.Parts[resource.OpState]):
		o.Parts[resource.Operation] = ""
		o.Parts[resource.OpState] = fmt.Sprintf(`{"operation":%s,"phase":"Failed"}`, op)
	case op != "" && o.Parts[resource.OpState] != fmt.Sprintf(`{"operation":%s,"phase":"Running"}`, op):
		w.ops[op].runs++
		o.Parts[resource.OpState] = fmt.Sprintf(`{"operation":%s,"phase":"Running"}`, op)
	case op != "":
		o.Parts[resource.Operation] = ""
		o.Parts[resource.OpState] = fmt.Sprintf(`{"operation":%s,"phase":"Succeeded"}`, op)
		o.Parts[resource.Status] = w.status(o, "did "+op)
	case o.Parts[resource.RefreshMark] != "":
		o.Parts[resource.RefreshMark] = ""
		w.fresh[o.UID]++
		if wish, of := w.wishes[k], w.original(n, o); wish != nil && (wish.of == of || of == "") { // its mark may be stripped
			wish.done = true
		}
		o.Parts[resource.Status] = w.status(o, "refreshed")
	case w.faulty && k.Kind == resource.Application:
		o.Parts[resource.Status] = w.status(o, fmt.Sprint(w.r.IntN(4)))
		w.deployed[o.UID] = true
	default:
		return false
	}
	n.put(o)
	return true
}

// A status is what argo says of an object.
type status struct {
	Of           string // the UID of the object that it was of at first
	Says         string
	Refreshed    int // how often
	ReconciledAt string
}

// status returns that of an object of the spoke which has been reconciled now.
func (w *world) status(o resource.Object, says string) string {
	return fmt.Sprintf(`{"of":%q,"reconciledAt":%q,"refreshed":%d,"says":%q}`, o.UID, w.now.UTC().Format(time.RFC3339), w.fresh[o.UID], says)
}

func statusOf(text string) (s status) {
	_ = json.Unmarshal([]byte(text), &s) // what somebody has meddled with says nothing
	return s
}

// finish lets a slow deletion end.
func (w *world) finish(n *node) bool {
	for _, k := range sortedKeys(n.slow) {
		if o, ok := n.store[k]; ok && o.Deleting && n.slow[k] {
			delete(n.slow, k)
			n.put(o)
			return true
		}
	}
	return false
}

// work does what controllers do while everything comes to rest.
func (w *world) work() bool {
	busy := w.finish(w.node[0])
	busy = w.finish(w.node[1]) || busy
	for _, k := range sortedKeys(w.node[1].store) {
		busy = w.argo(k) || busy
	}
	return busy
}

// disturb lets one thing go wrong, or somebody do something.
func (w *world) disturb() {
	n := w.node[w.r.IntN(2)]
	c := w.r.IntN(37)
	if w.calm && (c < 4 || c == 28) {
		c = 36
	}
	switch {
	case c < 2:
		n.restart()
	case c == 2 && w.kind == durable:
		w.half[n.side].loseLog(w.random())
		n.step(w.half[n.side].opened(uint64(n.rev)))
	case c == 3 && w.kind == durable:
		w.half[n.side].loseCopy()
	case c == 4:
		w.up = !w.up
	case c == 5:
		w.half[n.side].age(w.r)
	case c < 16:
		w.user(n)
	case c < 18:
		w.request()
	case c == 18:
		w.wish(n)
	case c < 23:
		w.argo(app(w.r.IntN(w.names)))
	case c == 23:
		w.localRequest()
	case c == 24: // somebody meddles with the spoke's parts at the hub
		if o, ok := w.node[0].store[w.key()]; ok && w.original(w.node[0], o) != "" {
			p := []resource.Part{resource.Status, resource.OpState, resource.Fault}[w.r.IntN(3)]
			if w.rules.Mirrors(resource.Principal, o.Key.Kind, p) && o.Parts[resource.Operation] == "" {
				o.Parts[p] = "meddled"
				w.node[0].put(o)
			}
		}
	case c == 25:
		w.finish(n)
	case c == 26:
		n.step(engine.Presence{Peer: w.r.IntN(2) == 0})
	case c == 27:
		n.step(engine.Retry{Key: w.key()})
	case c == 28:
		n.rekey()
	default:
		n.step(engine.Tick{})
	}
}
