package engine

import (
	"strconv"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// An entry is all that is known of one key.
type entry struct {
	local *resource.Object // as the store last showed it; nil is absent

	told   *Record           // the peer's row; nil is none
	toldOf resource.Digest   // its Digest, which is asked for often
	opaque opaque            // a later one that cannot be read; told stays in force
	heard  bool              // told is the peer's word, or taken for it; else nothing is known
	at     uint64            // its place in the copy; 0 if it is only taken for it
	dead   Line              // the originals that the peer has named as deleted
	keys   resource.Metadata // what the peer's earlier rows named and the copy may still carry

	laidOver overlay // metadata that was found to be as it should be

	sent  resource.Digest // our row in our log
	uid   string          // the original that it is of, or that the last one was of
	died  bool            // that original was seen being deleted here
	after Line            // the After of that row
	lost  bool            // the row may not have got there
	unfit unfit
	owed  owed

	busy    bool            // a Write or Remove is under way: at most one a key
	tried   Action          // the last one; not tried twice, but for a failure, at a Tick
	triedOf resource.Digest // what told was then
	tries   int             // how often it has failed
	retry   time.Time       // when it may be tried again with nothing new from the peer
	fault   string          // why it was refused; until told is another, nothing is tried
	failure string          // why it failed last
	stored  [resource.NumParts]exchange
	stamp   stamp
	fresh   string // the id chosen for a refresh until the store shows it
	absence absence
	nudged  bool   // it is to be looked at again by Argo CD, see welcome
	denied  bool   // what is wanted of it is Withheld
	was     string // the original of the last copy that was here and that we did not remove
	anew    bool   // a Retry came while a write was under way
	laid    bool   // the write that is under way is counted, see order
	held    bool   // it is among the Held of our Fuse
}

// An exchange is a part that the store keeps otherwise than it was told to, because it
// prunes or defaults fields: what it was told, and what it made of that.
type exchange struct{ told, kept resource.Digest }

// An unfit row is one that the link will never take, and why.
type unfit struct {
	row  resource.Digest
	text string
}

// An opaque row is one of the peer's that cannot be read. It counts as known only once the
// peer, asked to, has said the same again: it may have been spoilt on its way.
type opaque struct {
	Unreadable
	again bool
}

// An overlay is an object's metadata, that which its owner says, and the keys that are ours.
type overlay struct{ have, want, ours string }

// A stamp is the id chosen for a request until the store shows it.
type stamp struct{ operation, uid, id string }

// learn compares what a write asked for with what the store made of it, and accepts the
// difference. It reports false if there is one that must not be accepted: the mark is gone.
func (en *entry) learn(asked, got resource.Object) bool {
	for p := range resource.NumParts {
		if asked.Parts[p] != got.Parts[p] {
			en.stored[p] = exchange{resource.Sum(asked.Parts[p]), resource.Sum(got.Parts[p])}
		}
	}
	return asked.Origin == got.Origin
}

// keeps reports whether the store is known to make have of a part that is told to be want.
func (en *entry) keeps(p resource.Part, want, have string) bool {
	x := en.stored[p]
	return x.told != "" && x.told == resource.Sum(want) && x.kept == resource.Sum(have)
}

// record takes note of what our log holds, and its Digest.
func (en *entry) record(w Body, d resource.Digest) {
	if r, ok := w.(Record); ok {
		if r.UID != en.uid {
			en.died = false
		}
		en.uid, en.after = r.UID, r.After
	}
	en.sent, en.lost = d, false
}

// spent reports whether there is nothing to know of the key.
func (en *entry) spent() bool {
	return en.local == nil && en.told == nil && en.opaque.Row == "" && en.sent == "" && !en.busy && !en.lost
}

// row returns what the link's copy of the peer's table is known to hold.
func (en *entry) row() resource.Digest {
	if en.opaque.again {
		return en.opaque.Row
	}
	return en.toldOf
}

func digest(r *Record) resource.Digest {
	if r == nil {
		return ""
	}
	return r.Digest()
}

// RevisionOf returns a store's version as a number by which ages compare; 0 if it is none.
func RevisionOf(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
