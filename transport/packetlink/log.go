package packetlink

import (
	"cmp"
	"slices"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// How a log that is just being filled, as after a start, is given time: if the peer's copy
// is of another one it may well become equal to it, and then nothing has to be compared.
const (
	settled = 200 * time.Millisecond // without another Send it is filled
	waited  = 2 * time.Second        // or if it takes as long as that
)

// TombstoneAge is how long a tombstone is kept once the peer has it, and in a Copy.
const TombstoneAge = 24 * time.Hour

// A row is the last Message of a key.
type row struct {
	digest string
	record []byte // the encoded Message
	order  uint64 // of Send: the highest is the newest
	holder string // the salt of the copy that has it; "" if none is known to
	flying bool   // a value of the key is under way
}

// A log is what this side has sent, and what is known of the peer's copy of it.
//
// What the peer has it says by an account, once for every connection. If that is not equal
// the log asks for the sums of the buckets, and then for the marks of those that differ.
// Only then does it send: what the peer lacks, and of each key one value at a time.
type log struct {
	limits Limits
	epoch  string
	rows   map[string]*row
	bytes  int64 // of the records
	order  uint64
	graves []grave // tombstones that the peer has, the oldest first

	// Of the connection.
	stage      stage
	theirs     account
	tally      tally             // while the log is filling
	has        map[uint64]uint64 // marks of rows that the peer has, as far as they were not sent since
	unsent     keys
	flights    []flight  // in the order in which they were sent
	asked      uint64    // buckets whose marks are awaited
	asOf       uint64    // the order of the last row that was in them
	news       bool      // something was put since due was told the time
	from, last time.Time // when the log began to be filled, and when it was last put into
}

// A flight is a value under way.
type flight struct {
	key   string
	order uint64
}

// A grave is a tombstone that the peer has.
type grave struct {
	flight
	since time.Time
}

// A stage is how far a log has come in learning what the peer has.
type stage uint8

const (
	unheard  stage = iota // there is no account yet
	filling               // it is of another log, and this one may become equal to it
	summing               // the sums of its buckets are to be asked for
	listing               // they are asked for
	choosing              // the marks of some buckets are to be asked for
	marking               // they are asked for
	known                 // what it lacks is being sent
)

func newLog(epoch string, l Limits) *log {
	return &log{limits: l, epoch: epoch, rows: map[string]*row{}}
}

// fits reports whether there is room for a record.
func (l *log) fits(key string, record []byte) bool {
	was := l.rows[key]
	size := l.bytes + int64(len(record))
	if was != nil {
		size -= int64(len(was.record))
	}
	return size <= l.limits.Bytes && (was != nil || len(l.rows) < l.limits.Rows)
}

// put takes in the next value of a key.
func (l *log) put(key, digest string, record []byte) {
	l.order++
	next := &row{digest: digest, record: record, order: l.order}
	if was := l.rows[key]; was != nil {
		next.flying = was.flying
		l.bytes -= int64(len(was.record))
		if l.stage == filling && counted(key, was.digest) {
			l.tally.remove(markOf(l.theirs.salt, key, was.digest))
		}
	}
	l.rows[key] = next
	l.bytes += int64(len(record))
	l.news = true
	switch l.stage {
	case filling:
		if counted(key, digest) {
			l.tally.add(markOf(l.theirs.salt, key, digest))
		}
		l.compare()
	case known:
		l.offer(key, next)
	}
}

// begin begins another connection.
func (l *log) begin() {
	l.stage, l.theirs, l.has, l.unsent, l.flights = unheard, account{}, nil, keys{}, nil
	l.from = time.Time{}
	for _, r := range l.rows {
		r.flying = false
	}
}

// hear takes in what the peer's copy is.
func (l *log) hear(a account) {
	l.theirs = a
	l.count()
	switch {
	case a.count == 0:
		l.learn(0, nil)
	case a.of == l.epoch:
		l.stage = summing
	default:
		l.stage = filling
	}
	if l.stage != known {
		l.compare()
	}
}

// count counts the rows as the peer does.
func (l *log) count() {
	l.tally = tally{}
	for k, r := range l.rows {
		if counted(k, r.digest) {
			l.tally.add(markOf(l.theirs.salt, k, r.digest))
		}
	}
}

// compare notices that the peer has all.
func (l *log) compare() {
	if l.tally.count == l.theirs.count && l.tally.sum() == l.theirs.sum {
		l.learn(0, nil)
	}
}

// due returns when a log that is filling is no longer waited for, and notes that now it is
// not. It is zero if nothing is waited for.
func (l *log) due(now time.Time) time.Time {
	if l.news {
		l.news, l.last = false, now
	}
	if l.stage != filling || len(l.rows) == 0 {
		return time.Time{}
	}
	if l.from.IsZero() {
		l.from = now
	}
	due := l.last.Add(settled)
	if latest := l.from.Add(waited); latest.Before(due) {
		due = latest
	}
	if !now.Before(due) {
		l.stage = summing
		return time.Time{}
	}
	return due
}

// sums takes in those of the peer's buckets.
func (l *log) sums(of [buckets]uint64) {
	l.count()
	l.asked, l.asOf = l.tally.differing(of), l.order
	l.stage = choosing
	if l.asked == 0 {
		l.learn(0, nil)
	}
}

// marks takes in those of the buckets that were asked for.
func (l *log) marks(all []mark) {
	has := make(map[uint64]uint64, len(all))
	for _, m := range all {
		has[m.key] = m.value
	}
	l.learn(l.asked, has)
}

// learn takes in what the peer has: of some buckets these rows, and of the others all that
// were there when they were compared.
func (l *log) learn(in uint64, has map[uint64]uint64) {
	whole := in == 0 && l.theirs.count > 0
	l.stage, l.has = known, has
	var lacks []flight
	for k, r := range l.rows {
		if r.holder != l.theirs.salt {
			r.holder = ""
		}
		m := markOf(l.theirs.salt, k, r.digest)
		_, there := has[m.key]
		same := l.had(m) || whole || in != 0 && in&(1<<m.bucket()) == 0 && r.order <= l.asOf
		switch {
		case !counted(k, r.digest):
			if there {
				r.holder = "" // it has a value
			}
		case same:
			r.holder = l.theirs.salt
		default:
			r.holder = ""
		}
		if r.holder == "" {
			lacks = append(lacks, flight{k, r.order})
		}
	}
	// Tombstones make room for what comes behind them.
	lives := func(f flight) int { return min(1, len(l.rows[f.key].digest)) }
	slices.SortFunc(lacks, func(a, b flight) int { return cmp.Or(lives(a)-lives(b), cmp.Compare(a.order, b.order)) })
	for _, f := range lacks {
		l.unsent.push(f.key)
	}
}

// had reports whether the peer had this very row when it was asked, and none of its key was
// sent to it since.
func (l *log) had(m mark) bool {
	value, ok := l.has[m.key]
	delete(l.has, m.key)
	return ok && value == m.value
}

// offer has a row sent, unless the peer has it.
func (l *log) offer(key string, r *row) {
	switch {
	case len(l.has) > 0 && l.had(markOf(l.theirs.salt, key, r.digest)) && counted(key, r.digest):
		r.holder = l.theirs.salt
	case !r.flying: // or else it has its turn when that has landed
		l.unsent.push(key)
	}
}

// next returns the next record to be sent, and its key, if there is one.
func (l *log) next() (key string, record []byte, ok bool) {
	for l.unsent.len() > 0 {
		k := l.unsent.pop()
		if r := l.rows[k]; r != nil && r.holder == "" && !r.flying {
			r.flying = true
			l.flights = append(l.flights, flight{k, r.order})
			return k, r.record, true
		}
	}
	return "", nil, false
}

// landed takes in that the peer has the first n values of those under way. It reports
// whether there were as many.
func (l *log) landed(n uint64, now time.Time) bool {
	if n > uint64(len(l.flights)) {
		return false
	}
	for _, f := range l.flights[:n] {
		r := l.rows[f.key]
		if r == nil {
			continue // the log was lost meanwhile
		}
		r.flying = false
		switch {
		case r.order != f.order:
			l.unsent.push(f.key)
		case r.digest == "":
			l.graves = append(l.graves, grave{f, now})
			fallthrough
		default:
			r.holder = l.theirs.salt
		}
	}
	l.flights = l.flights[n:]
	l.bury(now)
	return true
}

// bury forgets old tombstones.
func (l *log) bury(now time.Time) {
	for len(l.graves) > 0 && now.Sub(l.graves[0].since) > TombstoneAge {
		g := l.graves[0]
		l.graves = l.graves[1:]
		if r := l.rows[g.key]; r != nil && r.order == g.order {
			l.bytes -= int64(len(r.record))
			delete(l.rows, g.key)
		}
	}
}

// lose begins another log.
func (l *log) lose(epoch string) {
	l.epoch, l.rows, l.bytes, l.unsent = epoch, map[string]*row{}, 0, keys{}
	l.count()
}

// shown returns the log as a transport.Link does.
func (l *log) shown() (map[string]transport.Message, error) {
	var out transport.Log
	for _, r := range l.rows {
		m, _, err := cutMessage(r.record)
		if err != nil {
			return nil, err
		}
		out.Put(m)
	}
	return out.Rows, nil
}
