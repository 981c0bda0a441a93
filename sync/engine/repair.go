package engine

import (
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// repair finds out whether the copy of the peer's table is whole, and mends it.
type repair struct {
	declared resource.Digest // of the Manifest in our log
	stands   Manifest        // what that says, as far as it is news, if it is known
	put      uint64          // the rows that had been put into our log at the last Tick
	busy     int             // Ticks at which there were more, without a break
	silent   int             // Ticks since a Manifest was put there
	answered Ticket          // the newest Ask of the peer's that we have answered
	asked    Ask             // its newest
	askedAt  uint64          // its place in the copy
	owing    bool            // it is to be answered

	manifest   Manifest // the peer's
	manifestAt uint64   // its place in the copy; 0 if there is none
	sums       *Sums    // the peer's newest; nil if there is none
	sumsAt     uint64
	asking     bool   // an Ask of ours stands in our log
	ask        Ticket // its name, and of which log it is; zero if it is from before our time
	askOf      string
	stirred    bool // the copy or the Manifest has changed since the last Tick
	still      int  // Ticks since it did
	vain       int  // Asks since one changed something
}

const (
	// patience is the number of quiet Ticks after which a difference is no longer taken for
	// messages on their way.
	patience = 2
	// humble is how many Asks in vain are put at that pace; each further one waits for twice
	// as long, up to patience<<slowest.
	humble  = 4
	slowest = 6
	// steady is at how many Ticks in a row there must have been more rows for a log to count as one
	// into which they are put all the time, and seldom is how many Ticks there are then from one
	// Manifest to the next. Nobody misses those in between: while rows come nothing is asked for.
	steady, seldom = 3, 4
	// page is how many rows an Ask lists before it leaves further buckets to the next Ask.
	page = 2000
)

func (r *repair) opened(ev Opened) {
	r.declared, r.stands = ev.Holds[ManifestKey].Digest, Manifest{}
	r.asking, r.ask, r.askOf = ev.Holds[AskKey].Digest != "", Ticket{N: r.ask.N}, ""
	r.still = 0
}

// unsent has a reserved value sent again. A Sums is not: who asked will ask again.
func (r *repair) unsent(k resource.Key) {
	switch k {
	case ManifestKey:
		r.declared = ""
	case AskKey:
		r.asking, r.ask, r.askOf = true, Ticket{N: r.ask.N}, ""
	}
}

// InStep reports whether the copy of the peer's table is known to be whole.
func (e *Engine) InStep() bool {
	return e.manifestAt > 0 && e.manifest.Root == e.copy.root && e.manifest.Count == e.copy.count
}

// heard takes in the value of a reserved key.
func (e *Engine) heard(now time.Time, at uint64, m Message) []Action {
	switch b := m.Body.(type) {
	case Manifest:
		if at > e.manifestAt {
			e.manifest, e.manifestAt, e.stirred = b, at, true
			e.compare(b)
		}
	case Sums:
		if at > e.sumsAt {
			e.sums, e.sumsAt = &b, at
			if e.asking && b.Answered == e.ask && !e.InStep() && e.whole() {
				return e.enquire()
			}
		}
	case Ask:
		if at > e.askedAt {
			e.asked, e.askedAt, e.owing = b, at, true
		}
		return e.answer()
	case Fuse:
		e.theirs = b.Held
	case Approval:
		e.approved = b.Of
	case Tombstone:
		switch {
		case m.Key == AskKey && at > e.askedAt:
			e.askedAt, e.owing = at, false
		case m.Key == FuseKey:
			e.theirs = nil
		}
	}
	return nil
}

// sumUp publishes our Manifest at a Tick if it has changed: at once, unless rows come all the time and
// there was one lately.
func (e *Engine) sumUp() []Action {
	if e.busy++; e.put == e.receipts.count {
		e.busy = 0
	}
	e.put = e.receipts.count
	if e.silent++; e.busy >= steady && e.silent < seldom && e.declared != "" {
		return nil
	}
	return e.declare()
}

// declare publishes our Manifest if it has changed.
func (e *Engine) declare() []Action {
	m := Manifest{Epoch: e.epoch, By: e.cfg.Self, Since: e.since, Age: e.age, Count: e.log.count, Root: e.log.root, Answered: e.answered}
	if e.peak > e.since {
		m.Peak = e.peak
	}
	news := m
	news.Since, news.Age = 0, 0
	if e.declared != "" && news == e.stands {
		return nil
	}
	d := m.Digest()
	if e.stands = news; d == e.declared {
		return nil
	}
	e.declared, e.silent = d, 0
	e.receipts.declares(m)
	return send(ManifestKey, m)
}

// check asks for what is missing or too much in the copy, once things are quiet. An Ask
// stands until it is answered: a peer that is away is asked once.
func (e *Engine) check() []Action {
	if e.InStep() {
		e.vain = 0
		if !e.asking {
			return nil
		}
		e.asking = false
		return send(AskKey, Tombstone{})
	}
	if e.stirred {
		e.stirred, e.still = false, 0
	}
	e.still++
	answered := e.manifest.Answered == e.ask || e.manifest.Epoch != e.askOf
	if e.still <= patience<<min(max(e.vain-humble, 0), slowest) || e.asking && !answered {
		return nil
	}
	return e.enquire()
}

// whole reports whether the peer's newest sums are of the table that its Manifest shows.
func (e *Engine) whole() bool {
	return e.sums != nil && rootOf(e.sums.Of) == e.manifest.Root
}

// enquire puts up an Ask: for rows if it is known in which buckets the copy differs, else
// for the sums that show it.
func (e *Engine) enquire() []Action {
	n := e.ask.N
	if last := e.manifest.Answered; last.Epoch == e.epoch {
		n = max(n, last.N) // of a process before this one
	}
	a := Ask{Ticket: Ticket{e.epoch, n + 1}, Of: e.manifest.Epoch, Have: map[resource.Key]resource.Digest{}}
	if e.asking && e.whole() && e.sums.Answered == e.ask {
		a.Buckets, a.Have = e.differing()
	}
	e.asking, e.ask, e.askOf, e.still = true, a.Ticket, a.Of, 0
	e.vain++
	return send(AskKey, a)
}

// differing returns buckets in which the copy is not what the peer's sums say, and all that
// the copy holds of them.
func (e *Engine) differing() (set BucketSet, have map[resource.Key]resource.Digest) {
	held := map[int]map[resource.Key]resource.Digest{}
	for k, en := range e.entries {
		if b := BucketOf(k); en.row() != "" && e.copy.sums[b] != e.sums.Of[b] {
			if held[b] == nil {
				held[b] = map[resource.Key]resource.Digest{}
			}
			held[b][k] = en.row()
		}
	}
	have = map[resource.Key]resource.Digest{}
	for b := range Buckets {
		if e.copy.sums[b] == e.sums.Of[b] {
			continue
		}
		if len(have) > 0 && len(have)+len(held[b]) > page {
			break
		}
		set = set.With(b)
		for k, d := range held[b] {
			have[k] = d
		}
	}
	return set, have
}

// answer publishes again what the peer's standing Ask shows it to lack, a Tombstone for what
// it should not have, and then the Manifest; or the sums that it asks for first.
func (e *Engine) answer() []Action {
	if !e.open || !e.owing {
		return nil
	}
	e.owing, e.answered = false, e.asked.Ticket
	var out []Action
	if e.asked.Buckets.Empty() {
		out = send(SumsKey, Sums{Answered: e.answered, Of: e.log.sums})
		return append(e.declare(), out...)
	}
	for _, k := range sorted(e.entries) {
		en := e.entries[k]
		if e.asked.Buckets.Has(BucketOf(k)) && e.asked.Have[k] != e.want(k, en).Digest() {
			out = append(out, e.publish(k, en, true)...)
		}
	}
	for _, k := range sorted(e.asked.Have) {
		if e.entries[k] == nil {
			out = append(out, send(k, Tombstone{})...)
		}
	}
	return append(out, e.declare()...)
}
