package engine

import "github.com/argocd-fabric/argocd-agent/sync/resource"

// An Event is something that happened to this side.
type Event interface{ event() }

type (
	// Changed says that a local object was created or changed.
	Changed struct{ Object resource.Object }
	// Vanished says that a local object is no more.
	Vanished struct {
		Key  resource.Key
		UID  string // of the object, "" if it is not known
		Seen bool   // it was seen being deleted; else it was merely found missing
	}
	// Received says that the link's copy of the peer's table holds Message, now or since
	// before. At is its place in the copy: a lower one is older. It orders the Messages of
	// one Key, and need not outlive the process.
	Received struct {
		At      uint64
		Message Message
	}
	// Wrote says that a Write or Remove has ended. It comes after the Changed or Vanished
	// for what that did.
	Wrote struct {
		Key     resource.Key
		Outcome Outcome
		Object  *resource.Object // as stored by a Write that was Done and not overtaken
		Text    string           // why it failed
	}
	// Unsent says that a Send has failed, or may have.
	Unsent struct {
		Key    resource.Key
		Digest resource.Digest // of the message
		Never  bool            // the link will never take this value
		Text   string          // why
	}
	// Relisted says that the store was listed again, and how far it has come. It comes before
	// the Vanished for what the list lacks, lest that be told as if the store were as old as
	// it was.
	Relisted struct{ Revision uint64 }
	// Opened says that the store has been listed and the link's copy replayed, and what the
	// link's own log holds. Until then nothing is decided. It comes again if the log was
	// lost, or holds what the peer does not read; what it Holds then, it held some time ago.
	Opened struct {
		Epoch    string                // kept in the log; a new random one if the log is new
		Keeps    bool                  // the log is durable: it must hold the whole table
		Holds    map[resource.Key]Held // what is in the log, tombstones left out
		Manifest *Manifest             // our own that is in the log, if there is one
		Fuse     *Fuse                 // our own that is in the log, if there is one
		Revision uint64                // how far the store had come when it was listed
	}
	// Approved says that a user wants the copies that either side holds back, see Fuse, to
	// be removed: those whose list has the digest Of, see HeldDigest.
	Approved struct{ Of resource.Digest }
	// Retry says that a user wants what cannot be done for a key to be tried again.
	Retry struct{ Key resource.Key }
	// Presence says whether the peer's process answers. Until it is said it does not.
	Presence struct{ Peer bool }
	// Keyed says that the peer's newest Seal is Seal, and what its key and ours make: the key
	// for digests of what is sealed, which nobody else knows.
	Keyed struct {
		Seal Seal
		Key  string
	}
	// Confirmed says that the peer has had a whole table of ours, as its process says when it is
	// asked. Nothing is decided by it, see Status.Backlog.
	Confirmed struct{ Has Whole }
	// Tick says that time has passed: settle, and try again what failed.
	Tick struct{}
)

// Held is what the log says of a key without its value.
type Held struct {
	Digest resource.Digest
	UID    string // of the Record
	Phase  Phase  // of the Record
	After  Line   // of the Record
}

// An Outcome says how a Write or Remove ended.
type Outcome uint8

// The outcomes.
const (
	Done     Outcome = iota // it was done, or overtaken by a Version that the watch has shown or will show
	Failed                  // it may succeed later
	Refused                 // it never will
	Withheld                // a user here keeps it from being done: it is tried again after a Retry, or if it is another
)

// An Action is something that this side must now do. Each is carried out on its own
// time, those of one Key in order.
type Action interface{ action() }

type (
	// Send puts a message into the link's log; Unsent is the answer if that fails.
	Send struct{ Message Message }
	// Write makes the local object with Object's Key and Version into Object, creating it
	// if Version is "". If there is another Version it changes nothing. The answer is Wrote.
	Write struct{ Object resource.Object }
	// Remove deletes the local object with Key and Version. If there is another Version it
	// changes nothing. The answer is Wrote.
	Remove struct {
		Key     resource.Key
		Version string
	}
)

func (Changed) event()   {}
func (Vanished) event()  {}
func (Received) event()  {}
func (Wrote) event()     {}
func (Unsent) event()    {}
func (Relisted) event()  {}
func (Opened) event()    {}
func (Approved) event()  {}
func (Retry) event()     {}
func (Presence) event()  {}
func (Keyed) event()     {}
func (Confirmed) event() {}
func (Tick) event()      {}
func (Send) action()     {}
func (Write) action()    {}
func (Remove) action()   {}
