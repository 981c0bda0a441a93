// Package resource is the vocabulary of the system: the objects that are kept
// in step between a principal and its agents, the parts that each object is made
// of, and which side owns each part. It knows nothing of clusters, clocks or
// wires, and imports the standard library only.
//
// An object travels as it is: a Part is the canonical JSON of a piece of it, so a
// field that this code has never heard of passes untouched.
package resource

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// A Side is one end of a link.
type Side uint8

// The two sides.
const (
	Principal Side = iota // the control plane, the hub
	Agent                 // the workload cluster, the spoke
)

// String returns "principal" or "agent".
func (s Side) String() string { return [...]string{"principal", "agent"}[s] }

// Peer returns the other side.
func (s Side) Peer() Side { return 1 - s }

// A Kind names a type of object, as Kubernetes spells it.
type Kind string

// The kinds that are synchronised.
const (
	Application Kind = "Application" // Argo CD's
	Project     Kind = "AppProject"  // Argo CD's
	Secret      Kind = "Secret"      // that of a repository, or of credentials for repositories
	ConfigMap   Kind = "ConfigMap"   // that of Argo CD's GnuPG keys
)

// A Key names an object. On a link Namespace is empty where the two sides keep
// the object in namespaces of their own (namespace mapping).
type Key struct {
	Kind      Kind
	Namespace string
	Name      string
}

// String returns the key as kind/namespace/name, or kind/name where there is no namespace:
// the form that people are shown, and ParseKey reads.
func (k Key) String() string {
	switch {
	case k.Namespace != "":
		return string(k.Kind) + "/" + k.Namespace + "/" + k.Name
	case k.Name != "":
		return string(k.Kind) + "/" + k.Name
	}
	return string(k.Kind) // one that a link reserves
}

// ParseKey is the inverse of Key.String. No two texts are one key.
func ParseKey(text string) (Key, bool) {
	kind, rest, named := strings.Cut(text, "/")
	namespace, name, apart := strings.Cut(rest, "/")
	switch {
	case !named || apart && namespace == "":
		return Key{}, false
	case apart:
		return Key{Kind(kind), namespace, name}, true
	}
	return Key{Kind(kind), "", rest}, true
}

// Compare orders keys by kind, namespace and name.
func (k Key) Compare(l Key) int {
	return cmp.Or(cmp.Compare(k.Kind, l.Kind), cmp.Compare(k.Namespace, l.Namespace), cmp.Compare(k.Name, l.Name))
}

// An Origin is the mark on a copy that says what it is a copy of. The zero Origin
// is that of an object which is nobody's copy.
type Origin struct {
	UID string // of the original
	By  string // who wrote the original's row: the hub's identity on a spoke, the agent's name on a hub
}

// An Object is one version of a resource as its store holds it. Objects are
// comparable: an Object that equals another needs no write to become it.
type Object struct {
	Key      Key
	UID      string // given by the store; an object made anew under the same Key has another
	Version  string // given by the store, changed by every write; "" in an object that is to be created
	Origin   Origin // the mark of a copy
	Deleting bool   // marked for deletion, and still there
	Excluded bool   // its owner does not want it synchronised; it is not deleted
	Ours     string // the label and annotation keys that were written by us: a Meta without values, see Meta.Keys
	Parts    Parts
}

// A Part is a piece of an object that has exactly one owner.
type Part uint8

// The parts of an object.
const (
	Spec        Part = iota // what is wanted; its owner also decides whether the object exists
	Meta                    // the owner's labels, annotations and Argo CD's own finalizer: the text of a Metadata
	Status                  // what is, without the state of an operation
	OpState                 // the state of the operation that runs or ran last
	Operation               // a request to run something once; handed off, never mirrored
	OpID                    // names the request asked for last (principal) or taken last (agent)
	Fault                   // why the copy is not what it was told to be
	Terminate               // a request to end the Operation of an id: see TerminateText; it travels, and is on no object
	Refresh                 // names the request to refresh that waits (principal) or was taken last (agent); see RefreshID
	RefreshMark             // Argo CD's own mark of an object to be refreshed, RefreshNormal or RefreshHard; never travels
	Pending                 // at a principal: what waits for the agent to come back; never travels
	Held                    // at a principal: why a copy without an original is still there; never travels
	NumParts
)

// String returns the name of the part as it stands on the wire.
func (p Part) String() string { return partNames[p] }

// PartNamed is the inverse of Part.String.
func PartNamed(name string) (Part, bool) {
	for p := range NumParts {
		if partNames[p] == name {
			return p, true
		}
	}
	return 0, false
}

var partNames = [NumParts]string{"spec", "meta", "status", "operationState", "operation", "operationID", "fault", "terminate", "refresh", "refreshMark", "pending", "held"}

// Parts holds the canonical JSON of each Part (those from OpID on are plain text); "" is absent.
type Parts [NumParts]string

// A Digest stands for a text; "" stands for none.
type Digest string

// Sum returns the Digest of a list of texts: the first 16 bytes, in hexadecimal, of the
// SHA-256 of each text behind its length in 8 bytes.
func Sum(texts ...string) Digest {
	var small [256]byte // what fits here is hashed without garbage
	b := small[:0]
	for _, t := range texts {
		if len(b)+8+len(t) > cap(b) {
			return sumLarge(texts)
		}
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(t))), t...)
	}
	return digestOf(sha256.Sum256(b))
}

func digestOf(sum [sha256.Size]byte) Digest {
	var text [32]byte
	hex.Encode(text[:], sum[:16])
	return Digest(text[:])
}

// sumLarge hashes texts piece by piece: copies of them as a whole, which are large, would be much
// of the garbage of a process that hears of many objects.
func sumLarge(texts []string) Digest {
	h := sha256.New() // what it is stays known to the compiler, which has it and the piece on the stack
	var piece [512]byte
	n := 0
	var size [8]byte
	for _, t := range texts {
		binary.BigEndian.PutUint64(size[:], uint64(len(t)))
		for _, text := range [...]string{string(size[:]), t} {
			for text != "" {
				if n == len(piece) {
					h.Write(piece[:])
					n = 0
				}
				m := copy(piece[n:], text)
				n, text = n+m, text[m:]
			}
		}
	}
	h.Write(piece[:n])
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return digestOf(sum)
}
