// Package engine decides what one side of a link must do next. It is a pure state
// machine: events go in, actions come out, and nothing here does I/O, reads a clock,
// starts a goroutine or writes a log. Both sides run the same Engine.
//
// Each side publishes one table: a Record for every object that it has something to say
// of. The link carries it as a log in which the last value of every key survives, and
// gives the other side a copy that in the end equals it. An Engine keeps its log equal to
// its store (publish) and its store equal to its copy of the peer's log (settle); a
// Manifest in each log shows whether the copy is whole, and an Ask in the other mends it
// (repair). Neither side ever waits for the other, and there are no commands: a request to
// run something is a part of the row as well.
//
// Level, not edge: an event only says where to look again. goal says what the local object
// should be, want what our row should be, and the rest is comparison.
//
// Absence is not deletion. A copy is removed because a Record or a Tombstone names its
// original as deleted, or because the peer's whole table, known to be complete, does not
// have it; and then only through the fuse.
package engine

import (
	"slices"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Config says which side of which link an Engine is.
type Config struct {
	Side  resource.Side
	Rules resource.Rules
	Self  string // our identity: the hub's, or the agent's name
	Peer  string // the peer's identity where it is known beforehand: the agent's name at the principal
	// Expiry is how old a request to run something may be for an agent to take it; 0 is any age.
	Expiry time.Duration
	// Stale is for how long a principal's agent may be away before each of its objects says that
	// it is as it was then; 0 is for ever.
	Stale time.Duration
	// Public is the public half of our key, as it is told to the peer; "" if there is none.
	Public string
}

// Engine is the state of one side of one link. It is not safe for concurrent use.
type Engine struct {
	cfg      Config
	entries  map[resource.Key]*entry
	failed   map[resource.Key]bool // to be tried again, at a Tick
	spent    map[resource.Key]bool // nothing is left to know of them
	puzzling map[resource.Key]bool // their last row could not be read
	stale    uint64                // the highest place of a key that was forgotten

	log  table // what our log holds
	copy table // what the link's copy of the peer's log holds, as far as we know
	repair
	breaker
	company
	order
	sealing

	tally
	receipts

	open  bool
	epoch string // of our log
	since uint64 // how far our store had come when it was listed
	age   uint64 // how far it has come
	peak  uint64 // how far our log remembers it to have come
}

// New returns the Engine for one side of a link.
func New(c Config) *Engine {
	return &Engine{
		cfg:      c,
		entries:  map[resource.Key]*entry{},
		failed:   map[resource.Key]bool{},
		spent:    map[resource.Key]bool{},
		puzzling: map[resource.Key]bool{},
		breaker:  breaker{missing: map[resource.Key]bool{}},
		order:    newOrder(),
	}
}

// Step takes in one event and returns what must now be done, in order. Times do not go
// back.
func (e *Engine) Step(now time.Time, ev Event) []Action {
	e.begins(now)
	switch ev := ev.(type) {
	case Changed:
		return e.changed(now, ev.Object)
	case Vanished:
		return e.vanished(now, ev)
	case Received:
		return e.receive(now, ev.At, ev.Message)
	case Wrote:
		return e.wrote(now, ev)
	case Unsent:
		return e.unsent(now, ev)
	case Relisted:
		e.relisted(ev.Revision)
	case Opened:
		return e.opened(now, ev)
	case Approved:
		return e.approve(ev)
	case Retry:
		return e.retry(now, ev.Key)
	case Presence:
		return e.meet(now, ev.Peer)
	case Keyed:
		return e.keyed(now, ev)
	case Confirmed:
		e.confirm(ev.Has)
	case Tick:
		return e.tick(now)
	}
	return nil
}

func (e *Engine) changed(now time.Time, o resource.Object) []Action {
	e.age = max(e.age, RevisionOf(o.Version))
	en := e.entry(o.Key)
	en.local = &o
	if o.Origin.UID != "" && !o.Deleting {
		en.was = o.Origin.UID
	}
	en.died = en.died && o.UID != en.uid // it may have been brought back with its identity
	if e.open {
		e.assume(o.Key, en)
	}
	return e.decide(now, o.Key, en)
}

func (e *Engine) vanished(now time.Time, ev Vanished) []Action {
	en := e.entry(ev.Key)
	en.local = nil
	if ev.Seen && ev.UID != "" && ev.UID == en.uid {
		en.died = true
	}
	return e.decide(now, ev.Key, en)
}

// receive takes in the peer's word, unless a later one is known.
func (e *Engine) receive(now time.Time, at uint64, m Message) []Action {
	if Reserved(m.Key) {
		return e.heard(now, at, m)
	}
	en := e.entries[m.Key]
	if en == nil {
		if at <= e.stale { // said again, of a key that was forgotten since
			return nil
		}
		en = e.entry(m.Key)
	}
	if at <= en.at {
		return nil
	}
	en.at = at
	switch b := m.Body.(type) {
	case Record:
		e.tell(m.Key, en, &b)
	case Tombstone:
		en.dead = b.After.with(b.UID).and(en.dead)
		e.tell(m.Key, en, nil)
	case Unreadable:
		e.puzzle(en, m.Key, b)
	}
	return e.decide(now, m.Key, en)
}

// relisted takes note of how far the store has come. One that went back in time is younger
// than our log will remember it to have been.
func (e *Engine) relisted(revision uint64) {
	if revision < e.age {
		e.peak = max(e.peak, e.age)
	}
	e.since = revision
}

// opened makes the log equal to the table. A log that does not keep anything is taken to
// have brought the peer all there is: if not, the peer will ask. When it is opened again what
// is known of originals is newer than what it holds: it was read some time ago.
func (e *Engine) opened(now time.Time, ev Opened) []Action {
	again := e.open
	e.open, e.epoch, e.log = true, ev.Epoch, table{}
	e.since, e.age = ev.Revision, max(e.age, ev.Revision)
	if m := ev.Manifest; m != nil && m.By == e.cfg.Self {
		e.peak = max(e.peak, m.Peak)
		if m.Age > e.age { // an earlier process said it; this one has come as far as it has said itself
			e.peak = max(e.peak, m.Age)
		}
	}
	e.repair.opened(ev)
	e.sealing.opened(ev)
	e.load(ev)
	for k := range ev.Holds {
		if !Reserved(k) {
			e.entry(k)
		}
	}
	for k, en := range e.entries {
		e.follow(k, en)
	}
	var out []Action
	for _, k := range ranked(e.entries) {
		en := e.entries[k]
		en.sent, en.lost = "", false
		if h, ok := ev.Holds[k]; ok {
			if en.sent = h.Digest; !again || en.uid == "" {
				en.uid, en.after, en.died = h.UID, h.After, false
			}
		}
		e.assume(k, en)
		if !ev.Keeps {
			e.presume(k, en)
		}
		e.log.set(k, "", en.sent)
		out = append(out, e.decide(now, k, en)...)
	}
	out = append(out, e.introduce()...)
	return append(out, e.answer()...)
}

// Told returns the peer's row of a key; false if it has none, or none has been heard yet.
func (e *Engine) Told(k resource.Key) (Record, bool) {
	en := e.entries[k]
	if en == nil || en.told == nil || en.at == 0 {
		return Record{}, false
	}
	return *en.told, true
}

func (e *Engine) tick(now time.Time) []Action {
	if !e.open {
		return nil
	}
	var out []Action
	for _, k := range sorted(e.failed) {
		en := e.entries[k]
		if now.Before(en.retry) {
			continue
		}
		delete(e.failed, k)
		if !en.busy && !en.denied {
			en.tried = nil
		}
		out = append(out, e.decide(now, k, en)...)
	}
	out = append(out, e.resume(now, true)...)
	out = append(out, e.miss(now)...)
	out = append(out, e.solve(now)...)
	out = append(out, e.trip(now)...)
	out = append(out, e.introduce()...)
	out = append(out, e.sumUp()...)
	out = append(out, e.check()...)
	e.forget()
	return out
}

func (e *Engine) wrote(now time.Time, ev Wrote) []Action {
	en := e.entry(ev.Key)
	en.busy, en.denied = false, ev.Outcome == Withheld
	if en.anew && en.denied { // that was before the Retry
		en.tried = nil
	}
	en.anew = false
	e.settled(ev.Key, en)
	var woken []Action
	if ev.Outcome == Done {
		en.nudged = false
		woken = e.welcome(now, ev.Key)
	}
	switch {
	case ev.Outcome == Failed:
		en.failure = ev.Text
		e.again(now, ev.Key, en)
	case ev.Outcome == Refused:
		en.fault = ev.Text
	case ev.Object != nil:
		if w, ok := en.tried.(Write); ok && !en.learn(w.Object, *ev.Object) {
			e.again(now, ev.Key, en)
		}
	}
	return slices.Concat(e.decide(now, ev.Key, en), e.resume(now, false), woken)
}

// again has what failed tried again, later and later: after 1 s, 2 s, 4 s, to 5 min.
func (e *Engine) again(now time.Time, k resource.Key, en *entry) {
	en.retry = now.Add(min(time.Second<<min(en.tries, 9), 5*time.Minute))
	en.tries++
	e.failed[k] = true
}

// unsent takes note that a value may not be in our log, to be sent again at a Tick.
func (e *Engine) unsent(now time.Time, ev Unsent) []Action {
	if Reserved(ev.Key) {
		e.repair.unsent(ev.Key)
		e.breaker.unsent(ev.Key)
		e.sealing.unsent(ev.Key)
		return nil
	}
	en := e.entry(ev.Key)
	if ev.Never && ev.Digest == en.sent {
		en.unfit = unfit{ev.Digest, ev.Text}
		return e.decide(now, ev.Key, en)
	}
	en.lost = true
	e.failed[ev.Key] = true
	return nil
}

// forget frees what is kept of keys of which there is nothing to know any more.
func (e *Engine) forget() {
	if !e.InStep() {
		return
	}
	for k := range e.spent {
		if en := e.entries[k]; en != nil && en.spent() {
			e.stale = max(e.stale, en.at)
			e.receipts.bury(en.owed)
			delete(e.entries, k)
			delete(e.failed, k)
		}
	}
	clear(e.spent)
}

func (e *Engine) entry(k resource.Key) *entry {
	en := e.entries[k]
	if en == nil {
		en = &entry{}
		e.entries[k] = en
	}
	return en
}

func send(k resource.Key, b Body) []Action { return []Action{Send{Message{k, b}}} }
