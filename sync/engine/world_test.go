package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A world is two nodes, the link between them, and a seeded source of trouble. It judges
// every action the moment it is taken, and the two stores at the end.
type world struct {
	r      *rand.Rand
	now    time.Time
	rules  resource.Rules
	kind   linkKind
	node   [2]*node
	half   [2]*half // half[i] is written by node i
	hubID  string
	names  int // of objects in use
	serial int

	up     bool
	faulty bool
	calm   bool          // no restarts and no lost stores
	norm   bool          // nothing may be removed
	ours   bool          // stores remember which metadata keys we wrote
	expiry time.Duration // of requests to run something
	lapse  time.Duration // after which what an agent that is away has said is stale

	ops      map[string]*operation
	deleted  map[string]bool           // UIDs of originals that their owner deleted
	cascaded map[string]bool           // of those, the ones deleted with all that they deployed
	born     map[string]bool           // UIDs of originals
	copies   map[string]bool           // "a of p": a has at some time been the copy of p
	stray    map[string]bool           // UIDs of copies made by a write that outlived its process
	pulled   map[string]bool           // UIDs of originals whose finalizer somebody pulled
	wiped    map[string]bool           // UIDs of spoke objects that were deleted with all they deployed, rightly
	foreign  map[string]bool           // UIDs of copies that carry somebody else's key
	deployed map[string]bool           // UIDs of spoke objects whose workloads run
	hidden   map[string]bool           // UIDs of objects that were excluded at some time
	blurred  map[string]bool           // UIDs of copies one of whose owner's keys somebody else has changed
	line     map[resource.Key][]string // the originals that a key has had
	spoilt   map[resource.Digest]bool  // rows that were once unreadable when they arrived
	babel    keySet                    // keys whose rows the agent cannot read
	wishes   map[resource.Key]*wish    // the mark that is on an object of the hub, or was last
	taken    map[string]int            // how often a request to refresh was taken
	fresh    map[string]int            // how often a spoke object was refreshed, by its UID

	visits      *visits
	seals       int // messages about keys
	asks, asked int // Asks, and the keys that they listed
	err         error
}

// An operation is a request to run something.
type operation struct {
	of    string // UID of the original
	key   resource.Key
	runs  int
	lost  int  // how often the object that carried or remembered it was destroyed
	local bool // made on the spoke
	asked time.Time
	ended bool // somebody has terminated it, or taken it back
	known bool // and the agent's engine has heard of that
	late  bool // it expired
}

// A wish is a mark on an object of the hub by which a user wants it refreshed.
type wish struct {
	of   string // UID of the original
	hard bool
	// what there was when it was made: how often each copy had been refreshed
	before map[string]int
	done   bool // its copy was refreshed since
}

func newWorld(seed uint64, rules resource.Rules, k linkKind) *world {
	w := &world{
		r: rand.New(rand.NewPCG(seed, uint64(k)<<8|uint64(rules.Mode))), now: time.Unix(1_700_000_000, 0),
		rules: rules, kind: k, hubID: "hub", names: 3, up: true, faulty: true, calm: seed%2 == 0, ours: true,
		ops: map[string]*operation{}, deleted: map[string]bool{}, cascaded: map[string]bool{}, born: map[string]bool{},
		copies: map[string]bool{}, stray: map[string]bool{}, pulled: map[string]bool{}, wiped: map[string]bool{},
		foreign: map[string]bool{}, deployed: map[string]bool{}, blurred: map[string]bool{}, hidden: map[string]bool{}, spoilt: map[resource.Digest]bool{}, line: map[resource.Key][]string{},
		wishes: map[resource.Key]*wish{}, taken: map[string]int{}, fresh: map[string]int{},
	}
	for i := range w.node {
		w.half[i] = newHalf(k, w.random())
		w.node[i] = &node{w: w, side: resource.Side(i), store: map[resource.Key]resource.Object{}, slow: map[resource.Key]bool{}}
	}
	for _, n := range w.node {
		n.rekey()
	}
	return w
}

func (w *world) config(s resource.Side) engine.Config {
	if s == resource.Principal {
		return engine.Config{Side: s, Rules: w.rules, Self: w.hubID, Peer: "spoke", Stale: w.lapse, Public: w.node[s].public}
	}
	return engine.Config{Side: s, Rules: w.rules, Self: "spoke", Expiry: w.expiry, Public: w.node[s].public}
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *world) random() string { return fmt.Sprintf("%08x", w.r.Uint32()) }

func (w *world) uid(s resource.Side) string {
	w.serial++
	return fmt.Sprintf("%c%d", "pa"[s], w.serial)
}

func (w *world) owner(n *node, k resource.Key) bool {
	return w.rules.Owns(n.side, k.Kind, resource.Spec)
}

func (w *world) ownerNode() *node { return w.node[w.rules.Mode] }

func (w *world) original(n *node, o resource.Object) string {
	switch {
	case w.owner(n, o.Key):
		return o.UID
	case o.Origin.By == neighbour:
		return "" // that is another agent's affair
	}
	return o.Origin.UID
}

// checkWrite judges a write the moment it is done.
func (w *world) checkWrite(n *node, cur, o resource.Object, doubt string) {
	hub, spoke := w.node[0], w.node[1]
	if w.owner(n, o.Key) {
		if cur.UID == "" || o.Parts[resource.Spec] != cur.Parts[resource.Spec] || o.Origin != cur.Origin {
			w.fail("%v: the engine changed its own original %v into %v", n.side, cur, o)
		}
		if len(meta(cur).Finalizers) > 0 && len(meta(o).Finalizers) == 0 {
			c := spoke.store[o.Key]
			if !cur.Deleting || n == hub && c.Origin.UID == o.UID && !w.hidden[c.UID] && !w.stray[c.UID] {
				w.fail("%v was let go while its copy was there: %v", o, c)
			}
		}
	} else {
		if cur.UID != "" && cur.Origin.UID == "" && (!w.rules.Adopts(n.side, cur) || o.Origin.UID == "") {
			w.fail("%v: wrote to %v, which is not ours", n.side, cur)
		}
		if strings.HasPrefix(o.Key.Name, "private") {
			w.fail("%v: wrote %v, which the peer never named", n.side, o)
		}
		if !w.born[o.Origin.UID] {
			w.fail("%v: %v became a copy of %v", n.side, cur, o.Origin)
		}
		if cur.Excluded {
			w.fail("%v: wrote to %v, which is excluded", n.side, cur)
		}
		if f := meta(cur).Annotations["foreign"]; f != meta(o).Annotations["foreign"] {
			w.fail("%v: somebody else's key was changed: %v into %v", n.side, cur, o)
		}
	}
	if s := o.Parts[resource.Status]; n == hub && s != cur.Parts[resource.Status] && s != "" && s != "meddled" {
		of := statusOf(s).Of
		if to := w.original(n, o); of != to && !w.copies[of+" of "+to] {
			w.fail("status %q was put on %v", s, o)
		}
	}
	if n == hub {
		w.checkHubRequests(cur, o)
	} else {
		w.checkSpokeRequests(cur, o, doubt)
	}
}

// checkSend notes what is asked for, and judges that a request is made known by its id only.
func (w *world) checkSend(n *node, m engine.Message) {
	switch b := m.Body.(type) {
	case engine.Ask:
		w.asks++
		w.asked += len(b.Have)
	case engine.Record:
		if b.Parts[resource.Operation] != "" && b.Parts[resource.OpID] == "" {
			w.fail("%v: %v was made known without an id", n.side, b)
		}
	}
}

// checkOrder judges a Remove the moment that it is wanted: no project goes from under an
// Application that is known to be going.
func (w *world) checkOrder(n *node, k resource.Key) {
	if k.Kind != resource.Project || n.side != resource.Agent {
		return
	}
	for _, o := range n.store {
		if o.Key.Kind == resource.Application && o.Deleting && o.Origin.UID != "" && !w.hidden[o.UID] && !n.unseen(o.Key) &&
			!slices.ContainsFunc(w.line[o.Key], func(uid string) bool { return w.hidden[uid] }) {
			w.fail("%v: %v goes from under %v", n.side, k, o)
		}
	}
}

func (w *world) checkRemove(n *node, cur resource.Object) {
	switch {
	case w.owner(n, cur.Key):
		w.fail("%v: the engine removed its own %v", n.side, cur)
	case cur.Origin.UID == "":
		w.fail("%v: removed %v, which is not ours", n.side, cur)
	case cur.Excluded:
		w.fail("%v: removed %v, which is excluded", n.side, cur)
	case !w.deleted[cur.Origin.UID]:
		w.fail("%v: removed %v, whose original was not deleted", n.side, cur)
	case n.side == resource.Agent && len(meta(cur).Finalizers) > 0:
		if !w.wanted(cur) {
			w.fail("%v: removed %v with all that it deployed, which nobody wanted", n.side, cur)
		}
		w.wiped[cur.UID] = true
	}
}

// wanted reports whether the original of a copy, or one that took its name later, was
// deleted with all that it deployed.
func (w *world) wanted(copy resource.Object) bool {
	line := w.line[copy.Key]
	from := slices.Index(line, copy.Origin.UID)
	return from >= 0 && slices.ContainsFunc(line[from:], func(uid string) bool { return w.cascaded[uid] })
}

// destroyed takes note that an object is gone, and with it what it remembered.
func (w *world) destroyed(n *node, o resource.Object) {
	for _, op := range w.ops {
		if of := w.original(n, o); op.key == o.Key && (of == op.of || of == "") {
			op.lost++
		}
	}
	if n.side == resource.Agent {
		delete(w.deployed, o.UID)
	} else {
		delete(w.wishes, o.Key)
	}
}

// flow lets something move on the link or in a store.
func (w *world) flow() bool {
	moved := false
	for _, i := range w.r.Perm(2) {
		h := w.half[i]
		if w.up && len(h.move) > 0 {
			h.carry(w.r)
			moved = true
		}
		if m, ok := h.next(w.r, w.faulty, w.up); ok {
			w.node[1-i].step(w.spoil(w.node[i], m))
			moved = true
		}
		if w.node[i].turn() {
			moved = true
		}
		if w.faulty && w.r.IntN(2) == 0 {
			break
		}
	}
	return moved
}

// spoil makes a row unreadable on its way, once: said again it is whole.
func (w *world) spoil(by *node, m engine.Received) engine.Received {
	r, ok := m.Message.Body.(engine.Record)
	babel := by.side == resource.Principal && w.babel[m.Message.Key]
	if !ok || !babel && (!w.faulty || w.spoilt[r.Digest()] || w.r.IntN(30) > 0) {
		return m
	}
	w.spoilt[r.Digest()] = true
	u := engine.Unreadable{Row: r.Digest(), Text: "spoilt"}
	if babel || w.r.IntN(2) == 0 {
		u.UID = r.UID
	}
	m.Message.Body = u
	return m
}

// settle lets everything come to rest: nothing is restarted or connected anew, for that
// would hide what went wrong.
func (w *world) settle(rounds int) {
	for range rounds {
		w.now = w.now.Add(time.Minute)
		for _, n := range w.node {
			n.step(engine.Tick{})
		}
		busy := true
		for turn := 0; busy && w.err == nil; turn++ {
			if busy = false; turn > 200 {
				w.fail("it does not come to rest")
			}
			for range 20000 {
				if !w.flow() {
					break
				}
				busy = true
			}
			busy = w.work() || busy
			busy = busy || len(w.node[0].watch)+len(w.node[1].watch) > 0
		}
	}
}

func (w *world) counts() (c [6]int) {
	for i, n := range w.node {
		c[i], c[2+i], c[4+i] = n.data, n.control, n.writes
	}
	return c
}
