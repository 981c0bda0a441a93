package engine

import (
	"fmt"
	"slices"
	"time"
)

// A Whole names a whole table as it was at one time: tables of equal rows have equal names. ""
// names none.
type Whole string

// A sum is what a Whole is written from.
type sum struct {
	count int
	root  uint64
}

func (t *table) sum() sum { return sum{t.count, t.root} }

func (s sum) whole() Whole { return Whole(fmt.Sprintf("%d-%016x", s.count, s.root)) }

// receipts know what of our table the peer is known to have, and for how long our copy has
// lacked something of the peer's. Nothing is decided by them: the protocol has no
// acknowledgements, and a peer that lacks something asks. They are for people, who want to know
// for how long what they have changed has been waiting. The peer's word comes as Confirmed, from
// whoever asks its process.
type receipts struct {
	now   time.Time // of this Step
	count uint64    // of the rows that were put into our log
	said  []said    // our newest Manifests, the oldest first
	gone  owed      // tombstones that are owed, of keys that were forgotten since
	dead  int       // how many
	sure  time.Time // when the peer was last known to have all there was

	has   sum       // the newest table of the peer's that our copy has equalled
	had   bool      // there was one
	lacks time.Time // since when it equals none; zero if it does
}

// A said is a Manifest of ours: it sums up the rows up to the one with the number upTo.
type said struct {
	table sum
	upTo  uint64
	at    time.Time
}

// manifests is how many of ours are remembered. With one at each Tick of a busy log that is half a
// minute or more, and who has last had one that is older is as good as never heard.
const manifests = 32

// owed says of a row that the peer is not known to have it. The zero owed says nothing.
type owed struct {
	since int64  // nanoseconds since 1970: when what it is not known to have was changed first
	last  uint64 // the number of the newest row
}

// begins takes in how the last Step has left the copy.
func (e *Engine) begins(now time.Time) {
	before := e.receipts.now
	e.receipts.now = now
	switch {
	case e.InStep():
		e.receipts.lacks = time.Time{}
		e.receipts.has, e.receipts.had = e.copy.sum(), true
	case e.receipts.lacks.IsZero() && before.IsZero():
		e.receipts.lacks = now
	case e.receipts.lacks.IsZero():
		e.receipts.lacks = before
	}
}

// owe notes that the peer does not have a row yet that is put into our log.
func (e *Engine) owe(en *entry) {
	e.receipts.count++
	en.owed.last = e.receipts.count
	if en.owed.since == 0 {
		en.owed.since = e.receipts.now.UnixNano()
	}
}

// bury notes that a key is forgotten, of which a tombstone may be owed.
func (r *receipts) bury(o owed) {
	if o.since == 0 {
		return
	}
	r.dead++
	if r.gone.since == 0 || o.since < r.gone.since {
		r.gone.since = o.since
	}
	r.gone.last = max(r.gone.last, o.last)
}

// declares notes that our log has another Manifest.
func (r *receipts) declares(m Manifest) {
	if len(r.said) == manifests {
		r.said = slices.Delete(r.said, 0, 1)
	}
	r.said = append(r.said, said{sum{m.Count, m.Root}, r.count, r.now})
}

// confirm takes in that the peer has had a table of ours. What has changed since is owed from
// then on at most.
func (e *Engine) confirm(table Whole) {
	of := said{upTo: e.receipts.count, at: e.receipts.now}
	if table != e.log.sum().whole() {
		i := len(e.receipts.said) - 1
		for i >= 0 && e.receipts.said[i].table.whole() != table {
			i--
		}
		if i < 0 {
			return // it is older than what is remembered, or of another log
		}
		of = e.receipts.said[i]
	}
	if of.at.After(e.receipts.sure) {
		e.receipts.sure = of.at
	}
	for _, en := range e.entries {
		en.owed.confirm(of)
	}
	if e.receipts.gone.confirm(of); e.receipts.gone.since == 0 {
		e.receipts.dead = 0
	}
}

func (o *owed) confirm(of said) {
	switch {
	case o.last <= of.upTo:
		*o = owed{}
	case o.since != 0:
		o.since = max(o.since, of.at.UnixNano())
	}
}

// tellReceipts says in st how both directions stand.
func (e *Engine) tellReceipts(st *Status) {
	oldest := e.receipts.gone.since
	st.Backlog = e.receipts.dead
	for _, en := range e.entries {
		if en.owed.since == 0 {
			continue
		}
		st.Backlog++
		if oldest == 0 || en.owed.since < oldest {
			oldest = en.owed.since
		}
	}
	if oldest != 0 {
		st.Oldest = time.Unix(0, oldest)
	}
	if st.Sure = e.receipts.sure; e.receipts.had {
		st.Has = e.receipts.has.whole()
	}
	if !e.InStep() {
		st.Lacks = e.receipts.lacks
		if e.receipts.lacks.IsZero() {
			st.Lacks = e.receipts.now
		}
	}
}
