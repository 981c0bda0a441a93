package packetlink

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// What both sides of a link count, to find out what differs between a log and the copy of
// it without sending either: the live rows, each by a hash. Reserved keys and tombstones are
// not counted: there are few, and either side forgets old tombstones when it likes.
//
// The hashes are salted with a text that the reader has made up, so that nobody who can
// write a row can have it taken for another.

// buckets is how many there are. A bitmap of them is one uint64.
const buckets = 64

// A mark stands for a row: of which key it is, and which value it has.
type mark struct{ key, value uint64 }

// markSize is what a mark takes in a packet.
const markSize = 16

// bucket returns the one that the key is in.
func (m mark) bucket() int { return int(m.key % buckets) }

func markOf(salt, key, digest string) mark {
	return mark{hashOf(salt, key), hashOf(salt, key, digest)}
}

// hashOf returns a hash of some texts, which differ if any of them does.
func hashOf(texts ...string) uint64 {
	var small [256]byte // where nearly all find room
	b := small[:0]
	for _, t := range texts {
		b = binary.AppendUvarint(b, uint64(len(t)))
		b = append(b, t...)
	}
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// counted reports whether the value of a key is counted.
func counted(key, digest string) bool { return digest != "" && !strings.HasPrefix(key, "$") }

// A tally counts rows. The sums do not depend on the order.
type tally struct {
	count int
	of    [buckets]uint64
}

func (t *tally) add(m mark) {
	t.count++
	t.of[m.bucket()] += m.value
}

func (t *tally) remove(m mark) {
	t.count--
	t.of[m.bucket()] -= m.value
}

// sum returns that of all rows.
func (t *tally) sum() (sum uint64) {
	for _, s := range t.of {
		sum += s
	}
	return sum
}

// differing returns the buckets that have another sum.
func (t *tally) differing(of [buckets]uint64) (differ uint64) {
	for i := range of {
		if of[i] != t.of[i] {
			differ |= 1 << i
		}
	}
	return differ
}
