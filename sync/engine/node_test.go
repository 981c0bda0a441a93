package engine_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// cascade is Argo CD's own finalizer.
const cascade = "resources-finalizer.argocd.argoproj.io"

// A node is one side: a store that is watched and written late, and an Engine.
type node struct {
	w       *world
	side    resource.Side
	eng     *engine.Engine
	store   map[resource.Key]resource.Object
	slow    map[resource.Key]bool // has a finalizer that is not Argo CD's
	watch   []watched             // Changed, Vanished and Wrote, on their way
	work    []job                 // Writes and Removes, under way
	done    []engine.Event        // Unsent, on their way
	stuck   keySet                // writes of these fail, whatever they are
	shut    bool                  // writes of all but those that are adopted are withheld
	adopted keySet                // those
	anew    keySet                // a Retry came while a write was under way
	blind   bool                  // its store is looked at in the wrong place: it seems empty
	rev     int                   // the store's revision

	public string                           // half of its key
	seal   engine.Received                  // the peer's Seal
	pair   string                           // what the two keys make
	sealed map[resource.Key]engine.Received // rows that wait for that
	heard  map[resource.Key]uint64          // the place of what the engine has heard last
	failed map[resource.Key]engine.Action   // what came to nothing since the last try

	changes, data, control, writes int
	allowed                        int // rows that what happened accounts for
}

// A watched event is on its way to the engine; of a Wrote it also holds what was tried.
type watched struct {
	event engine.Event
	tried engine.Action
}

type job struct {
	act   engine.Action
	past  bool   // the process that wanted it is no more
	doubt string // see world.doubt
}

func (n *node) step(ev engine.Event) {
	if ev = n.unseal(ev); ev == nil {
		return
	}
	before := n.data
	switch ev := ev.(type) { // what may call for a new try
	case engine.Changed:
		delete(n.failed, ev.Object.Key)
	case engine.Vanished:
		delete(n.failed, ev.Key)
	case engine.Received:
		delete(n.failed, ev.Message.Key)
	case engine.Retry:
		delete(n.failed, ev.Key)
		n.anew[ev.Key] = n.writing(ev.Key)
	case engine.Presence: // objects have something else to say, or nothing any more
		clear(n.failed)
	case engine.Wrote:
		if n.anew[ev.Key] {
			delete(n.failed, ev.Key)
		}
		delete(n.anew, ev.Key)
	case engine.Unsent: // it is found out anew that the link will never take a row: the object is to say so
		if ev.Never {
			delete(n.failed, ev.Key)
		}
	}
	n.w.hear(n, ev)
	acts := n.eng.Step(n.w.now, ev)
	if *steps {
		fmt.Printf("%v %T%+v -> %+v\n", n.side, ev, ev, acts)
	}
	n.w.visit(n, ev, acts)
	for _, a := range acts {
		if s, ok := a.(engine.Send); ok {
			n.send(s.Message)
			continue
		}
		k := target(a)
		if _, ok := a.(engine.Remove); ok {
			n.w.checkOrder(n, k)
		}
		for _, j := range n.work {
			if !j.past && target(j.act) == k {
				n.w.fail("two writes of %v at once", k)
			}
		}
		if _, tick := ev.(engine.Tick); !tick && n.failed[k] == a {
			n.w.fail("%v: %v was tried again at once", n.side, a)
		}
		delete(n.failed, k)
		n.writes++
		n.work = append(n.work, job{act: a, doubt: n.w.doubt(n, a)})
	}
	switch ev := ev.(type) {
	case engine.Opened, engine.Tick, engine.Keyed:
		n.allowed += n.data - before
	case engine.Received:
		if ev.Message.Key == engine.AskKey {
			n.allowed += n.data - before
		} else if !engine.Reserved(ev.Message.Key) {
			n.allowed++
		}
	case engine.Wrote, engine.Unsent, engine.Retry:
		n.allowed++
	}
}

// unseal does what is done with keys outside of an engine: two public halves are a pair, a
// row that no pair is known for waits, and one of another pair cannot be read.
func (n *node) unseal(ev engine.Event) engine.Event {
	m, ok := ev.(engine.Received)
	if !ok {
		return ev
	}
	switch b := m.Message.Body.(type) {
	case engine.Seal:
		if m.At <= n.seal.At {
			return nil
		}
		n.seal = m
		pair := []string{n.public, b.Public}
		slices.Sort(pair)
		if n.pair = strings.Join(pair, "+"); b.Public == n.public {
			n.w.fail("%v heard its own key", n.side)
		}
		n.step(engine.Keyed{Seal: b, Key: n.pair})
		waited := n.sealed
		n.sealed = map[resource.Key]engine.Received{}
		for _, k := range sortedKeys(waited) {
			n.step(waited[k])
		}
		return nil
	case engine.Record:
		switch {
		case b.Seal == "" || b.Seal == n.pair:
			return m
		case n.pair == "":
			if m.At >= n.sealed[m.Message.Key].At {
				n.sealed[m.Message.Key] = m
			}
			return nil
		}
		m.Message.Body = engine.Unreadable{Row: b.Digest(), UID: b.UID, Text: "sealed with another key"}
		return m
	}
	return m
}

func (n *node) send(m engine.Message) {
	n.w.checkSend(n, m)
	if m.Key == engine.SealKey {
		n.w.seals++
	}
	if engine.Reserved(m.Key) {
		n.control++
	} else {
		n.data++
	}
	if r, ok := m.Body.(engine.Record); ok && (m.Key.Kind.Sealed() && r.Parts != (resource.Parts{}) || r.Seal != "") && r.Seal != n.pair {
		n.w.fail("%v: %v is sent with the seal %q, not %q", n.side, m.Key, r.Seal, n.pair)
	}
	if r, ok := m.Body.(engine.Record); ok && strings.Contains(r.Parts[resource.Spec], "huge") {
		n.w.hidden[r.UID] = true // the peer will be told that it is excluded
		n.done = append(n.done, engine.Unsent{Key: m.Key, Digest: m.Body.Digest(), Never: true, Text: "too large"})
		return
	}
	if n.w.faulty && n.w.kind == durable && n.w.r.IntN(20) == 0 { // refused, or accepted without our knowing
		n.done = append(n.done, engine.Unsent{Key: m.Key, Digest: m.Body.Digest()})
		if n.w.r.IntN(2) == 0 {
			return
		}
	}
	n.w.half[n.side].put(m)
}

func target(a engine.Action) resource.Key {
	switch a := a.(type) {
	case engine.Write:
		return a.Object.Key
	case engine.Remove:
		return a.Key
	}
	panic(a)
}

func meta(o resource.Object) resource.Metadata {
	return resource.ParseMetadata(o.Parts[resource.Meta])
}

// put and drop change the store and let the watch know.
func (n *node) put(o resource.Object) resource.Object {
	n.rev++
	o.Version = strconv.Itoa(n.rev)
	if o.UID == "" {
		o.UID = n.w.uid(n.side)
	}
	o.Excluded = meta(o).Labels["ignore"] == "true"
	n.changes++
	if o.Excluded {
		n.w.hidden[o.UID] = true
	}
	if o.Deleting && len(meta(o).Finalizers) == 0 && !n.slow[o.Key] {
		n.drop(o.Key, true)
		return o
	}
	n.w.copies[o.UID+" of "+o.Origin.UID] = true
	n.store[o.Key] = o
	n.see(engine.Changed{Object: o})
	return o
}

func (n *node) drop(k resource.Key, seen bool) {
	o := n.store[k]
	n.rev++
	n.changes++
	n.w.destroyed(n, o)
	delete(n.store, k)
	delete(n.slow, k)
	n.see(engine.Vanished{Key: k, UID: o.UID, Seen: seen})
}

// unseen reports whether something of k is on its way to the engine.
func (n *node) unseen(k resource.Key) bool {
	return slices.ContainsFunc(n.watch, func(w watched) bool {
		c, ok := w.event.(engine.Changed)
		return ok && c.Object.Key == k
	})
}

// writing reports whether a write of k is under way.
func (n *node) writing(k resource.Key) bool {
	return slices.ContainsFunc(n.work, func(j job) bool { return !j.past && target(j.act) == k }) ||
		slices.ContainsFunc(n.watch, func(w watched) bool {
			wrote, ok := w.event.(engine.Wrote)
			return ok && wrote.Key == k
		})
}

func (n *node) see(ev engine.Event) {
	if !n.blind {
		n.watch = append(n.watch, watched{event: ev})
	}
}

// delete is what a user or a Remove does.
func (n *node) delete(k resource.Key) {
	if o, ok := n.store[k]; ok && !o.Deleting {
		o.Deleting = true
		n.put(o)
	}
}

// act carries out one pending write, or fails to.
func (n *node) act() {
	if len(n.work) == 0 {
		return
	}
	i := n.w.r.IntN(len(n.work))
	j := n.work[i]
	n.work = slices.Delete(slices.Clone(n.work), i, i+1)
	ev := engine.Wrote{Key: target(j.act)}
	roll := n.w.r.IntN(10)
	if n.shut && !n.adopted[ev.Key] {
		ev.Outcome = engine.Withheld
	} else if n.stuck[ev.Key] {
		ev.Outcome, ev.Text = engine.Failed, "stuck"
	} else if n.w.faulty && roll == 0 {
		ev.Outcome, ev.Text = engine.Failed, "try again"
	} else if w, ok := j.act.(engine.Write); ok && n.refuses(w.Object) {
		ev.Outcome, ev.Text = engine.Refused, "bad spec"
	} else if !ok && n.w.norm {
		ev.Outcome, ev.Text = engine.Refused, "may not remove"
	} else {
		ev.Object = n.apply(j)
		if o := n.store[ev.Key]; j.past {
			n.w.stray[o.UID] = true
		}
		if n.w.faulty && roll == 1 { // it was done, but we are not told
			ev.Outcome, ev.Text, ev.Object = engine.Failed, "timed out", nil
		}
	}
	if !j.past {
		n.watch = append(n.watch, watched{ev, j.act}) // behind the change it made
	}
}

func (n *node) refuses(o resource.Object) bool {
	return !n.w.owner(n, o.Key) && o.Parts[resource.Spec] == `"bad"`
}

// apply does what is asked, unless it was overtaken. The store prunes what it does not know.
func (n *node) apply(j job) *resource.Object {
	switch a := j.act.(type) {
	case engine.Write:
		cur, o := n.store[a.Object.Key], a.Object
		if cur.Version != o.Version {
			return nil
		}
		n.w.checkWrite(n, cur, o, j.doubt)
		if o.Version == "" && n.w.r.IntN(3) == 0 {
			n.slow[o.Key] = true
		}
		o.UID, o.Deleting = cur.UID, cur.Deleting
		o.Parts[resource.Spec] = strings.ReplaceAll(o.Parts[resource.Spec], "pruned", "")
		if o.Origin.UID != "" && n.w.ours {
			o.Ours = meta(o).Only(n.written(o).Overlay(resource.ParseMetadata(cur.Ours), resource.Metadata{})).Keys().Text()
		}
		got := n.put(o)
		return &got
	case engine.Remove:
		if cur := n.store[a.Key]; cur.Version == a.Version {
			n.w.checkRemove(n, cur)
			n.delete(a.Key)
		}
	}
	return nil
}

// written returns the metadata keys that a write changes.
func (n *node) written(o resource.Object) resource.Metadata {
	was, now := meta(n.store[o.Key]), meta(o)
	diff := func(was, now map[string]string) map[string]string {
		out := map[string]string{}
		for k, v := range now {
			if w, ok := was[k]; !ok || w != v {
				out[k] = v
			}
		}
		return out
	}
	return resource.Metadata{Labels: diff(was.Labels, now.Labels), Annotations: diff(was.Annotations, now.Annotations)}
}

// turn lets one thing happen here.
func (n *node) turn() bool {
	c := n.w.r.IntN(3)
	for range 3 {
		switch c = (c + 1) % 3; {
		case c == 0 && len(n.watch) > 0:
			e := n.watch[0]
			n.watch = n.watch[1:]
			if wrote, ok := e.event.(engine.Wrote); ok && wrote.Outcome != engine.Done {
				n.failed[wrote.Key] = e.tried
			}
			n.allowed++
			n.step(e.event)
			return true
		case c == 1 && len(n.work) > 0:
			n.act()
			return true
		case c == 2 && len(n.done) > 0:
			ev := n.done[0]
			n.done = n.done[1:]
			n.step(ev)
			return true
		}
	}
	return false
}

// rekey begins a new process with a new key.
func (n *node) rekey() {
	n.public = fmt.Sprint(n.side, " ", n.w.random())
	n.restart()
}

// restart begins a new process. Writes of the old one may still take place.
func (n *node) restart() {
	n.eng = engine.New(n.w.config(n.side))
	n.watch, n.done, n.failed, n.heard, n.anew = nil, nil, map[resource.Key]engine.Action{}, map[resource.Key]uint64{}, keySet{}
	n.seal, n.pair, n.sealed = engine.Received{}, "", map[resource.Key]engine.Received{}
	for i := range n.work {
		n.work[i].past = true
	}
	if !n.blind {
		for _, k := range sortedKeys(n.store) {
			n.step(engine.Changed{Object: n.store[k]})
		}
	}
	in, out := n.w.half[1-n.side], n.w.half[n.side]
	in.past = nil
	if in.kind == durable {
		for _, k := range sortedKeys(in.copy) {
			n.step(in.copy[k])
		}
		in.ready = keySet{}
	} else {
		out.loseLog(n.w.random())
	}
	before := n.data + n.control + n.writes
	n.step(engine.Tick{})
	if n.data+n.control+n.writes != before {
		n.w.fail("%v did something before it knew its log", n.side)
	}
	n.step(out.opened(uint64(n.rev)))
}
