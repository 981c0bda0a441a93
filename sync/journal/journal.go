// Package journal keeps what has become of the last changes of each object, for people who ask
// why something is not yet where it should be. It is a trail.Witness, one Book for each link of
// a process; nothing that is kept in step depends on it, and it is lost with its process.
//
// It is bounded. Of each object and direction the last Kept changes are there, and how the last
// few writes went only as far as they belong to one of these: about 1 KiB for an object
// that changes all the time, and at most 3 KiB where every write fails with a long reason. It is
// freed Lasting after the object is gone from both tables. And all Books of a Journal together
// have no more objects than its limit: then the one goes of which nothing was heard for longest.
package journal

import (
	"cmp"
	"container/list"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
)

const (
	// Kept is how many changes there are of one object and direction.
	Kept = 4
	// Lasting is for how long an object is remembered that is gone.
	Lasting = time.Hour
	// Objects is the limit of a Journal that says none: some 20 MiB of objects that all have changed.
	Objects = 20_000
	// maxText is the length of the longest reason that is kept, in bytes.
	maxText = 240
	// sweeps is how often, at most, a Journal looks for what it need not remember any more.
	sweeps = 10 * time.Minute
)

// A Journal is what one process remembers.
type Journal struct {
	limit int

	mu    sync.Mutex
	pages map[place]*list.Element
	order *list.List // of *page; that of which something was heard last is at the front
	swept time.Time
}

// A place is where a page is.
type place struct {
	peer string
	key  resource.Key
}

// New returns a Journal of no more than limit objects; 0 is Objects.
func New(limit int) (*Journal, error) {
	if limit < 0 {
		return nil, errors.New("journal: its limit is negative")
	}
	return &Journal{limit: cmp.Or(limit, Objects), pages: map[place]*list.Element{}, order: list.New()}, nil
}

// A Book is what is remembered of the link to one peer. It is a trail.Witness.
type Book struct {
	j    *Journal
	peer string
}

var _ trail.Witness = Book{}

// Book returns that of a peer.
func (j *Journal) Book(peer string) Book { return Book{j, peer} }

// Forget frees all that is remembered of a peer.
func (j *Journal) Forget(peer string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for at, el := range j.pages {
		if at.peer == peer {
			j.drop(el)
		}
	}
}

// Len returns of how many objects something is remembered.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.pages)
}

// A page is what is remembered of one object.
type page struct {
	at     place
	last   int64   // when something was heard of it
	ours   []said  // rows of ours, the last at the end
	theirs []heard // rows of the peer's
}

// Times are kept in nanoseconds since 1970, and digests in their first characters: pages are
// many.
type said struct {
	mark             mark
	seen, said, sent int64
	failed           string
	trace            string
}

type heard struct {
	mark                         mark
	written, heard, began, ended int64
	tries                        int32
	end                          End
	kept                         bool
	why                          string
	trace                        string
}

// A mark names a row, and says what may be of use of it.
type mark struct {
	digest     [Digits]byte
	dead       bool
	phase      engine.Phase
	reconciled string
}

// Digits is how many characters there are of a digest.
const Digits = 12

func markOf(d resource.Digest, row engine.Body) (m mark) {
	copy(m.digest[:], d)
	switch b := row.(type) {
	case engine.Record:
		m.phase = b.Phase
		m.reconciled, _ = resource.Reconciled(b.Parts[resource.Status])
		if len(m.reconciled) > len(time.RFC3339) {
			m.reconciled = ""
		}
	case engine.Tombstone:
		m.dead = true
	}
	return m
}

// Sending implements trail.Witness: nothing is to travel.
func (b Book) Sending(trail.Sent) string { return "" }

// Sent implements trail.Witness.
func (b Book) Sent(s trail.Sent) {
	b.j.mu.Lock()
	defer b.j.mu.Unlock()
	p := b.j.open(place{b.peer, s.Key}, s.Done)
	m := markOf(s.Digest, s.Row)
	m.reconciled = own(m.reconciled)
	if n := len(p.ours); n == 0 || p.ours[n-1].mark.digest != m.digest {
		p.ours = append(shift(p.ours), said{mark: m, seen: nanos(s.Seen), said: nanos(s.Said), trace: own(traceID(s.Trace))})
	}
	last := &p.ours[len(p.ours)-1]
	switch {
	case s.Err != nil:
		last.failed = short(s.Err.Error())
	case last.sent == 0 || last.failed != "":
		last.sent, last.failed = nanos(s.Done), ""
	}
}

// Heard implements trail.Witness.
func (b Book) Heard(h trail.Heard) {
	b.j.mu.Lock()
	defer b.j.mu.Unlock()
	p := b.j.open(place{b.peer, h.Key}, h.At)
	m := markOf(h.Digest, h.Row)
	if n := len(p.theirs); n > 0 && p.theirs[n-1].mark.digest == m.digest {
		return // said again
	}
	m.reconciled = own(m.reconciled)
	p.theirs = append(shift(p.theirs), heard{
		mark: m, written: nanos(h.Written), heard: nanos(h.At), kept: h.Kept, trace: own(traceID(h.Trace)),
	})
}

// Wrote implements trail.Witness. A write belongs to the row that was heard last.
func (b Book) Wrote(w trail.Wrote) {
	b.j.mu.Lock()
	defer b.j.mu.Unlock()
	el := b.j.pages[place{b.peer, w.Key}]
	if el == nil {
		return // it is of what an earlier process has heard, or of nothing that was heard
	}
	p := b.j.open(place{b.peer, w.Key}, w.Done)
	if len(p.theirs) == 0 {
		return
	}
	last := &p.theirs[len(p.theirs)-1]
	if last.end == Done {
		return // what is written later undoes what others have done to it
	}
	last.began, last.ended, last.end, last.why = nanos(w.Began), nanos(w.Done), ended(w), short(w.Text)
	last.tries++
}

func ended(w trail.Wrote) End {
	if w.Overtaken {
		return Overtaken
	}
	return map[engine.Outcome]End{engine.Done: Done, engine.Failed: Failed, engine.Refused: Refused, engine.Withheld: Withheld}[w.Outcome]
}

// shift makes room at the end.
func shift[T any](s []T) []T {
	if len(s) < Kept {
		return s
	}
	copy(s, s[1:])
	return s[:Kept-1]
}

// open returns the page at a place, of which something was heard now.
func (j *Journal) open(at place, now time.Time) *page {
	el := j.pages[at]
	if el == nil {
		j.sweep(now)
		for len(j.pages) >= j.limit {
			j.drop(j.order.Back())
		}
		el = j.order.PushFront(&page{at: at})
		j.pages[at] = el
	}
	j.order.MoveToFront(el)
	p := el.Value.(*page)
	p.last = nanos(now)
	return p
}

func (j *Journal) drop(el *list.Element) {
	delete(j.pages, el.Value.(*page).at)
	j.order.Remove(el)
}

// sweep frees what is remembered of objects that are long gone.
func (j *Journal) sweep(now time.Time) {
	if now.Sub(j.swept) < sweeps {
		return
	}
	j.swept = now
	for el := j.order.Back(); el != nil; {
		p, next := el.Value.(*page), el.Prev()
		if now.UnixNano()-p.last > int64(Lasting) && p.over() {
			j.drop(el)
		}
		el = next
	}
}

// over reports whether neither side's table has the object any more, as far as was told.
func (p *page) over() bool {
	gone := func(m mark) bool { return m.dead }
	return (len(p.ours) == 0 || gone(p.ours[len(p.ours)-1].mark)) && (len(p.theirs) == 0 || gone(p.theirs[len(p.theirs)-1].mark))
}

// traceID returns the id of the trace that a traceparent is of; "" if it is of none.
func traceID(traceparent string) string {
	const begin, end = 3, 35
	if len(traceparent) < end {
		return ""
	}
	id := traceparent[begin:end]
	for _, r := range id {
		if !(r >= '0' && r <= '9' || r >= 'a' && r <= 'f') {
			return ""
		}
	}
	return id
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// own returns a text that keeps no larger one alive.
func own(text string) string { return string(slices.Clone([]byte(text))) }

func short(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return own(text)
}
