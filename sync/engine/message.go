package engine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Message sets one key of the sender's table. The last Message of a Key is all that
// a link has to keep.
type Message struct {
	Key  resource.Key
	Body Body
}

// Body is the value of a key. Its Digest stands for it; "" is that of a Tombstone.
type Body interface{ Digest() resource.Digest }

// The reserved keys. They are no rows of the table, and are not summed.
var (
	ManifestKey = resource.Key{Kind: "$manifest"} // a Manifest
	SumsKey     = resource.Key{Kind: "$sums"}     // a Sums
	AskKey      = resource.Key{Kind: "$ask"}      // an Ask, or a Tombstone
	FuseKey     = resource.Key{Kind: "$fuse"}     // a Fuse, or a Tombstone
	ApprovalKey = resource.Key{Kind: "$approval"} // an Approval
	SealKey     = resource.Key{Kind: "$seal"}     // a Seal
)

// Reserved reports whether k is one of the reserved keys.
func Reserved(k resource.Key) bool { return strings.HasPrefix(string(k.Kind), "$") }

// A Phase says how far the deletion of an object is.
type Phase uint8

// The phases of a Record.
const (
	Live     Phase = iota
	Going          // said by the owner: the original is being deleted, delete the copy as it is being deleted
	Gone           // said by the other side: there is no copy, the original may vanish
	Excluded       // said by either side: the object is not synchronised, leave yours as it is
)

// String returns the phase as it stands on the wire.
func (p Phase) String() string { return phaseNames[p] }

// PhaseNamed is the inverse of Phase.String.
func PhaseNamed(name string) (Phase, bool) {
	i := slices.Index(phaseNames[:], name)
	return Phase(max(i, 0)), i >= 0
}

var phaseNames = [...]string{"live", "going", "gone", "excluded"}

// A Record is what the sender has to say of one object: the parts that it owns.
type Record struct {
	UID   string // of the original: the object on the side that owns Spec
	By    string // who says so: the hub's identity, or the agent's name
	Phase Phase
	Parts resource.Parts
	// Seal is the key of the digest of a row that is sealed, see Keyed. It is never sent.
	Seal string
	// After names the originals that had this key before. It is no part of the Digest.
	After Line
}

// A Tombstone says that the sender's table has no such key. A link may forget it after
// a time.
type Tombstone struct {
	// UID is that of the original if the sender knows that it was deleted. A Tombstone
	// without one only says that there is none.
	UID string
	// After names the originals that had this key before.
	After Line
}

// An Unreadable stands for a row that the receiver cannot read. It is never sent.
type Unreadable struct {
	Row  resource.Digest // of the row
	UID  string          // of the original that it is of, "" if not even that can be read
	Text string          // why it cannot be read
}

// A Manifest sums up the sender's whole table.
type Manifest struct {
	Epoch    string // of the sender's log: another one, another log
	By       string // the sender's identity
	Since    uint64 // how far the sender's store had come when it was last listed
	Age      uint64 // how far it has come
	Peak     uint64 // how far it had come once, if that was more than Since: then it went back in time
	Count    int
	Root     uint64 // the exclusive or of the sums of all buckets
	Answered Ticket // the newest Ask that was answered
}

// Sums is the first answer to an Ask: the sum of each bucket of the sender's table.
type Sums struct {
	Answered Ticket
	Of       [Buckets]uint64
}

// An Ask stands for as long as the sender's copy of the receiver's table is not what the
// Manifest says. Without Buckets it asks for a Sums; else it lists all that the sender
// has of each bucket in Buckets.
type Ask struct {
	Ticket  Ticket
	Of      string // the Epoch of the Manifest that showed it; "" if there was none
	Buckets BucketSet
	Have    map[resource.Key]resource.Digest
}

// A Ticket names an Ask.
type Ticket struct {
	Epoch string // of the asker's log
	N     uint64
}

// String returns the ticket as epoch/number.
func (t Ticket) String() string { return fmt.Sprintf("%s/%d", t.Epoch, t.N) }

// A Fuse is what the sender, as a reader, remembers of copies that the peer's table does
// not have although nobody is known to have deleted their originals.
type Fuse struct {
	By      string    // the peer's identity when it was last in step
	Since   uint64    // of its last Manifest
	Age     uint64    // the highest of its Manifests
	Back    bool      // it went back in time since
	Removed []Removal // for absence, in the last 24 hours
	Held    []Absent  // copies that are not removed until somebody approves
}

// An Absent is a copy that the peer's table does not have.
type Absent struct {
	Key resource.Key
	UID string // of its original
}

// A Removal is a copy that was removed for absence.
type Removal struct {
	At int64 // Unix seconds
	Of Absent
}

// An Approval says that a user wants a Fuse's Held to be removed.
type Approval struct {
	Of resource.Digest // of the Held list, see HeldDigest
}

// A Seal tells the peer the public half of the key with which the sender seals.
type Seal struct {
	Public string
	Of     string // the peer's public half that the sender knows; "" if it knows none
}

// HeldDigest stands for a list of held copies.
func HeldDigest(held []Absent) resource.Digest { return resource.Sum(fmt.Sprintf("%q", held)) }

// Digest covers everything but After, and with a Seal it tells nothing to who does not have
// that. A part that is absent does not count, so that one
// which an older version does not know changes no digest of what it does know.
func (r Record) Digest() resource.Digest {
	texts := make([]string, 0, 4+2*resource.NumParts)
	if r.Seal != "" {
		texts = append(texts, r.Seal)
	}
	texts = append(texts, r.Phase.String(), r.UID, r.By)
	for p := range resource.NumParts {
		if r.Parts[p] != "" {
			texts = append(texts, p.String(), r.Parts[p])
		}
	}
	return resource.Sum(texts...)
}

// Digest is "".
func (Tombstone) Digest() resource.Digest { return "" }

// Digest is that of the row.
func (u Unreadable) Digest() resource.Digest { return u.Row }

// Digest covers everything but Since and Age, which alone are no news.
func (m Manifest) Digest() resource.Digest {
	var small [192]byte // most fit in, and there is one of each busy table at each Tick
	b := strconv.AppendQuote(small[:0], m.Epoch)
	b = strconv.AppendQuote(append(b, ' '), m.By)
	b = strconv.AppendUint(append(b, ' '), m.Peak, 10)
	b = strconv.AppendInt(append(b, ' '), int64(m.Count), 10)
	b = strconv.AppendUint(append(b, ' '), m.Root, 16)
	b = append(append(append(b, ' '), m.Answered.Epoch...), '/')
	return resource.Sum(string(strconv.AppendUint(b, m.Answered.N, 10)))
}

// Digest covers everything.
func (s Sums) Digest() resource.Digest { return resource.Sum(fmt.Sprintf("%s %x", s.Answered, s.Of)) }

// Digest covers everything.
func (a Ask) Digest() resource.Digest {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q %x", a.Ticket, a.Of, a.Buckets)
	for _, k := range sorted(a.Have) {
		fmt.Fprintf(&b, "%q %s", k, a.Have[k])
	}
	return resource.Sum(b.String())
}

// Digest covers everything but By, Since and Age, which alone are no news.
func (f Fuse) Digest() resource.Digest {
	return resource.Sum(fmt.Sprintf("%t %#v %q", f.Back, f.Removed, f.Held))
}

// Digest covers everything.
func (a Approval) Digest() resource.Digest { return resource.Sum(string(a.Of)) }

// Digest covers everything.
func (s Seal) Digest() resource.Digest { return resource.Sum(s.Public, s.Of) }

func sorted[V any](m map[resource.Key]V) []resource.Key {
	if len(m) == 0 { // as with what is asked at each Tick
		return nil
	}
	return slices.SortedFunc(maps.Keys(m), resource.Key.Compare)
}
