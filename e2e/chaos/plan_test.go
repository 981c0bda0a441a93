package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A verb is what somebody does to an object.
type verb string

// What people do on the owner's side, then on either side, then what others do to copies, and
// what Argo CD does to Applications of a spoke by itself.
const (
	create   verb = "create"
	edit     verb = "edit"
	label    verb = "label"
	annotate verb = "annotate"
	remove   verb = "remove"
	renew    verb = "renew" // delete it, and create another of its name at once

	syncHub   verb = "sync on the hub"
	syncSpoke verb = "sync on the spoke"
	refresh   verb = "refresh on the hub"

	// syncs that do not end by themselves, and their end, or that of any other
	beginHub   verb = "begin on the hub"
	beginSpoke verb = "begin on the spoke"
	endHub     verb = "terminate on the hub"
	endSpoke   verb = "terminate on the spoke"

	ignore verb = "ignore"
	heed   verb = "ignore no more"

	spoil verb = "spoil the copy's spec"
	lose  verb = "delete the copy"

	report verb = "report a status"
)

// An act is one of them.
type act struct {
	at        time.Duration // since the head, or the storm, began
	agent     int
	verb      verb
	key       key
	n         int                        // another one for each act
	mark      string                     // which label or annotation
	value     string                     // what it is to be, "" to take it away
	finalizer string                     // Argo CD's, of what is created
	kept      bool                       // likewise
	quiet     bool                       // likewise
	policy    metav1.DeletionPropagation // of a deletion
	where     where                      // what is ignored is said to be
}

func (a act) String() string {
	more := strings.Join(slices.DeleteFunc([]string{"", a.finalizer, string(a.policy), string(a.where)}, func(s string) bool { return s == "" }), " ")
	return fmt.Sprintf("%6.2fs agent %d: %s %s, %d %s", a.at.Seconds(), a.agent, a.verb, a.key, a.n, more)
}

// A trouble befalls one place for some time.
type trouble struct {
	at, until time.Duration
	place     place
	agent     int    // whose place it is
	what      string // one of those that can befall the place
}

func (t trouble) String() string {
	return fmt.Sprintf("%6.2fs until %.2fs %s %d: %s", t.at.Seconds(), t.until.Seconds(), t.place, t.agent, t.what)
}

// A place is where trouble can be.
type place string

const (
	atLine      place = "line of agent"
	atHubAPI    place = "API server of the hub"
	atSpokeAPI  place = "API server of agent"
	atPrincipal place = "principal"
	atAgent     place = "program of agent"
)

// What befalls a program.
const (
	killed = "killed"
	wiped  = "killed and wiped"
)

const (
	headActs = 60
	headPace = 50 * time.Millisecond
	pace     = 200 * time.Millisecond // between two acts in a storm
	// letsGo is how many deletions of a storm may go unseen by one reader. Its fuse lets five
	// of them go in a day.
	letsGo = 4
)

// A draft draws the plan of a run. All that it says follows from its seed and from what it was
// asked for before. With each act the model becomes what is to be there after it.
type draft struct {
	model  model
	rnd    *rand.Rand
	n      int  // the last number of an act
	stormy bool // trouble may be about
}

func newDraft(m model, seed uint64) *draft {
	return &draft{model: m, rnd: rand.New(rand.NewPCG(seed, 0))}
}

// head begins a round, and draws what people do while all is well.
func (d *draft) head() (out []act) {
	d.model.rest()
	d.stormy = false
	if d.n == 0 {
		out = d.found()
	}
	for range headActs {
		out = append(out, d.act(time.Duration(len(out))*headPace))
	}
	return out
}

// storm draws what people do in a storm, and what befalls whom.
func (d *draft) storm(length time.Duration) (out []act, _ []trouble) {
	d.stormy = true
	d.model.settle()
	for at := time.Duration(0); at < length; at += pace {
		out = append(out, d.act(at))
	}
	return out, d.troubles(length)
}

// found returns what there is from the beginning.
func (d *draft) found() (out []act) {
	for agent, h := range d.model {
		for _, kind := range kinds(h.mode) {
			for i := range founded[kind] {
				name := fmt.Sprintf("kept-%d", i)
				if i >= founded[kind]/2 {
					name = fmt.Sprintf("first-%d", i)
				}
				a := act{agent: agent, verb: create, key: key{kind, name}, n: d.next(), kept: i < founded[kind]/2}
				if kind == resource.Application {
					a.finalizer, a.quiet = finalizers[i%len(finalizers)], i < quiet
				}
				a.at = time.Duration(len(out)) * headPace
				h.apply(a)
				out = append(out, a)
			}
		}
	}
	return out
}

// founded is how many objects there are from the beginning. Half of them are kept, so all
// that a kind has is never gone.
var founded = map[resource.Kind]int{resource.Application: 16, resource.Project: 4, resource.Secret: 4}

// quiet is how many Applications there are of which nothing is asked.
const quiet = 3

// finalizers are the ways in which Argo CD is told to delete what it has deployed; one is not
// to.
var finalizers = []string{finalizer, "", finalizer + "/foreground", "", finalizer + "/background", ""}

func (d *draft) next() int { d.n++; return d.n }

// act draws an act, and applies it.
func (d *draft) act(at time.Duration) act {
	for {
		agent := d.rnd.IntN(len(d.model))
		h := d.model[agent]
		w := d.rnd.IntN(weights())
		for _, o := range odds {
			if w -= o.weight; w >= 0 {
				continue
			}
			if a, ok := o.draw(d, h); ok {
				a.at, a.agent, a.verb, a.n = at, agent, o.verb, d.next()
				h.apply(a)
				return a
			}
			break
		}
	}
}

// odds says how likely each verb is, and to what it may be done.
var odds = []struct {
	verb   verb
	weight int
	draw   func(*draft, *holdings) (act, bool)
}{
	{create, 10, (*draft).drawCreate},
	{edit, 20, (*draft).drawAny},
	{label, 8, (*draft).drawLabel},
	{annotate, 6, (*draft).drawAnnotation},
	{remove, 9, (*draft).drawRemove},
	{renew, 4, (*draft).drawRenew},
	{syncHub, 7, (*draft).drawAsked},
	{syncSpoke, 2, (*draft).drawAsked},
	{refresh, 4, (*draft).drawAsked},
	{beginHub, 4, (*draft).drawAsked},
	{beginSpoke, 1, (*draft).drawAsked},
	{endHub, 4, (*draft).drawBegun},
	{endSpoke, 2, (*draft).drawBegun},
	{ignore, 3, (*draft).drawIgnore},
	{heed, 2, (*draft).drawHeed},
	{spoil, 8, (*draft).drawAny},
	{lose, 5, (*draft).drawLose},
	{report, 14, (*draft).drawApplication},
}

func weights() (sum int) {
	for _, o := range odds {
		sum += o.weight
	}
	return sum
}

// most bounds how many objects of a kind an agent has.
var most = map[resource.Kind]int{resource.Application: 40, resource.Project: 8, resource.Secret: 8}

// drawCreate draws what is to be created: something new, or a namesake of what is gone.
func (d *draft) drawCreate(h *holdings) (act, bool) {
	kind := d.kind(h)
	there := h.keys(func(k key, _ *object) bool { return k.kind == kind })
	a, again := d.pick(sorted(h.gone, func(k key, free bool) bool { return k.kind == kind && free }))
	if !again || d.rnd.IntN(3) > 0 {
		a.key = key{kind, fmt.Sprint("made-", d.n+1)}
	}
	if kind == resource.Application && d.rnd.IntN(3) > 0 {
		a.finalizer = finalizers[2*d.rnd.IntN(len(finalizers)/2)]
	}
	return a, len(there) < most[kind]
}

// kind draws one, most often Applications.
func (d *draft) kind(h *holdings) resource.Kind {
	if all := kinds(h.mode); d.rnd.IntN(4) == 0 {
		return all[d.rnd.IntN(len(all))]
	}
	return resource.Application
}

// pick draws one of some.
func (d *draft) pick(from []key) (act, bool) {
	if len(from) == 0 {
		return act{}, false
	}
	return act{key: from[d.rnd.IntN(len(from))]}, true
}

func (d *draft) drawAny(h *holdings) (act, bool) {
	kind := d.kind(h)
	return d.pick(h.keys(func(k key, _ *object) bool { return k.kind == kind }))
}

func (d *draft) drawApplication(h *holdings) (act, bool) {
	return d.pick(h.keys(func(k key, _ *object) bool { return k.kind == resource.Application }))
}

func (d *draft) drawLabel(h *holdings) (act, bool) {
	return d.drawMark(h, func(o *object) map[string]string { return o.labels })
}

func (d *draft) drawAnnotation(h *holdings) (act, bool) {
	return d.drawMark(h, func(o *object) map[string]string { return o.annotations })
}

// drawMark draws a mark that is to be set, changed or taken away.
func (d *draft) drawMark(h *holdings, of func(*object) map[string]string) (act, bool) {
	a, ok := d.drawApplication(h)
	a.mark = fmt.Sprint(markPrefix, d.rnd.IntN(3))
	if !ok || of(h.objects[a.key])[a.mark] == "" || d.rnd.IntN(3) > 0 {
		a.value = fmt.Sprint("v", d.n+1)
	}
	return a, ok
}

// drawAsked draws of what something is to be asked.
func (d *draft) drawAsked(h *holdings) (act, bool) {
	return d.pick(h.keys(func(k key, o *object) bool { return k.kind == resource.Application && o.kept && !o.quiet }))
}

// drawBegun draws what is to be ended: most often a sync that would not end by itself.
func (d *draft) drawBegun(h *holdings) (act, bool) {
	if d.rnd.IntN(4) == 0 {
		return d.drawAsked(h)
	}
	return d.pick(h.keys(func(_ key, o *object) bool { return o.begun }))
}

func (d *draft) drawIgnore(h *holdings) (act, bool) {
	a, ok := d.pick(h.keys(func(_ key, o *object) bool { return o.quiet && o.settled && o.ignored == nowhere }))
	a.where = onOriginal
	if d.rnd.IntN(2) == 0 {
		a.where = onCopy
	}
	return a, ok
}

// drawHeed draws what is not to be ignored any more. Somebody has to remember where it was.
func (d *draft) drawHeed(h *holdings) (act, bool) {
	a, ok := d.pick(h.keys(func(_ key, o *object) bool { return o.ignored != nowhere }))
	if ok {
		a.where = h.objects[a.key].ignored
	}
	return a, ok
}

// policies are what kubectl may say of what depends on an object, which is nothing.
var policies = []metav1.DeletionPropagation{
	metav1.DeletePropagationBackground, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
}

// drawLose draws a copy that somebody is to delete.
func (d *draft) drawLose(h *holdings) (act, bool) {
	a, ok := d.drawPassing(h)
	a.policy = policies[d.rnd.IntN(len(policies))]
	return a, ok
}

func (d *draft) drawPassing(h *holdings) (act, bool) {
	kind := d.kind(h)
	return d.pick(h.keys(func(k key, o *object) bool { return k.kind == kind && !o.kept }))
}

// drawRemove draws what is to be deleted. Of a managed agent an Application with Argo CD's
// finalizer stays until its deletion was seen and confirmed; everything else is gone at once,
// and if its owner's program does not run, nobody knows why it is absent.
func (d *draft) drawRemove(h *holdings) (act, bool) {
	a, ok := d.drawPassing(h)
	a.policy = policies[d.rnd.IntN(len(policies))]
	return a, ok && (h.objects[a.key].cascades() && h.mode == resource.Managed || d.mayMiss(h))
}

// drawRenew draws what is to be deleted and created anew at once, which Argo CD's finalizer
// would not let happen. A copy that has missed two lives of its name goes for being absent.
func (d *draft) drawRenew(h *holdings) (act, bool) {
	a, ok := d.pick(h.keys(func(k key, o *object) bool {
		return k.kind == resource.Application && !o.kept && !o.cascades() && !o.renewed
	}))
	a.policy = metav1.DeletePropagationBackground
	return a, ok && d.mayMiss(h)
}

// mayMiss reports whether another deletion may go unseen, and counts it.
func (d *draft) mayMiss(h *holdings) bool {
	if !d.stormy {
		return true
	}
	if h.unseen == letsGo {
		return false
	}
	h.unseen++
	return true
}

// A spell says how long a place is well, and how long it is troubled, at most and at least.
type spell struct {
	place         place
	each          bool // there is one for each agent
	wellMin, well time.Duration
	illMin, ill   time.Duration
	what          []string
}

func spells() []spell {
	return []spell{
		{atLine, true, 2 * time.Second, 8 * time.Second, 500 * time.Millisecond, 6 * time.Second, toxicNames()},
		{atHubAPI, false, 3 * time.Second, 10 * time.Second, 500 * time.Millisecond, 4 * time.Second, failureNames()},
		{atSpokeAPI, true, 3 * time.Second, 10 * time.Second, 500 * time.Millisecond, 4 * time.Second, failureNames()},
		{atPrincipal, false, 6 * time.Second, 16 * time.Second, 100 * time.Millisecond, 3 * time.Second, []string{killed, killed, wiped}},
		{atAgent, true, 6 * time.Second, 16 * time.Second, 100 * time.Millisecond, 3 * time.Second, []string{killed, killed, wiped}},
	}
}

// troubles draws what befalls each place, one after the other there, and places beside each
// other.
func (d *draft) troubles(storm time.Duration) (out []trouble) {
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(d.rnd.Int64N(int64(most-least)))
	}
	for _, s := range spells() {
		for agent := range d.model {
			if agent > 0 && !s.each {
				break
			}
			for at := between(0, s.well); at < storm; {
				t := trouble{at: at, place: s.place, agent: agent, what: s.what[d.rnd.IntN(len(s.what))]}
				t.until = min(at+between(s.illMin, s.ill), storm)
				out = append(out, t)
				at = t.until + between(s.wellMin, s.well)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b trouble) int { return int(a.at - b.at) })
	return out
}
