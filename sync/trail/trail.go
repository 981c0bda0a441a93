// Package trail is the vocabulary of what becomes of a change on its way from one side's
// store to the other's. A session tells it to one Witness; what that makes of it, a journal
// for people or spans for a tracer, no session knows.
//
// The way of a change, of which each side sees its half:
//
//	writer   the store shows the object                    Sent.Seen
//	         the engine has decided what the row says      Sent.Said
//	         the row is in the log                         Sent, or it is not: Sent.Err
//	reader   the row has come                              Heard
//	         the object was written, or it was not         Wrote
//
// What comes back, the row by which the reader says what has become of the object, goes the
// same way with the sides exchanged.
package trail

import (
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Witness is told by a session what becomes of each object's changes, as it happens: of one
// key in order, of different keys at once, from many goroutines. It must not wait, and keeps
// nothing of a Row. What it does is no part of the protocol: no row, no digest and no decision
// depends on it, but for the trace context that it has travel beside a row.
//
// Reserved keys are told to nobody.
type Witness interface {
	// Sending says that a row is about to be put into the log, as far as that is known by then:
	// without Done, Digest and Err. It returns the W3C traceparent that is to go with it, "" for
	// none. Sent follows, unless the session ends.
	Sending(Sent) (traceparent string)
	// Sent says that a row has been put into the log, or has not.
	Sent(Sent)
	// Heard says that the peer's row has come, before it is decided what is made of it. What
	// came late, behind a later one, is not told.
	Heard(Heard)
	// Wrote says that an object has been written or removed here, or has not, before anything is
	// decided of what comes of that.
	Wrote(Wrote)
}

// Sent is a row on its way into this side's log.
type Sent struct {
	Key    resource.Key
	Owned  bool // the object is ours, and not a copy: we decide what it is to be
	Row    engine.Body
	Digest resource.Digest
	Seen   time.Time // when the store showed what the row says; when that was decided if it says nothing new
	Said   time.Time // when the row was decided
	Done   time.Time // when the link had taken it, or had not
	// Again says that the row says nothing new: the log is made to hold what it should, after a
	// start, a failure, or the peer's asking.
	Again bool
	// Follows says that it was decided when a write here had ended: it says what that has made of
	// the object.
	Follows bool
	// Trace is the traceparent that goes with it.
	Trace string
	Err   error // why it may not be in the log; nil if it is
}

// Heard is a row of the peer's that has come.
type Heard struct {
	Key     resource.Key
	Owned   bool // as in Sent
	Row     engine.Body
	Digest  resource.Digest
	Written time.Time // when the peer wrote it, by its clock
	At      time.Time // when it came
	// Kept says that it was read from the copy that the link keeps of the peer's log: it may
	// have been heard by an earlier process.
	Kept  bool
	Trace string // the traceparent that came with it, whatever the peer has put there
}

// Wrote is the end of a write to this side's store.
type Wrote struct {
	Key     resource.Key
	Owned   bool // as in Sent
	Removed bool // the object was to be removed
	Began   time.Time
	Done    time.Time
	Outcome engine.Outcome
	// Overtaken says that another had written the object in between: nothing was done, and it
	// is decided anew.
	Overtaken bool
	Text      string // why it was not done
}

// Both returns a Witness that tells a and then b. What a says is to travel travels, or else
// what b does. Either may be nil.
func Both(a, b Witness) Witness {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return both{a, b}
}

type both struct{ a, b Witness }

func (w both) Sending(s Sent) string {
	first, second := w.a.Sending(s), w.b.Sending(s)
	if first != "" {
		return first
	}
	return second
}

func (w both) Sent(s Sent) {
	w.a.Sent(s)
	w.b.Sent(s)
}

func (w both) Heard(h Heard) {
	w.a.Heard(h)
	w.b.Heard(h)
}

func (w both) Wrote(d Wrote) {
	w.a.Wrote(d)
	w.b.Wrote(d)
}
