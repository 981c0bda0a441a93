package packetlink

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// A delta is a text written as what to take from another one, the base, and what to put in
// between. It is for rows of which little changes at a time, such as the status of an object.
//
// It is the length of the text, and then one step after the other: a number, of which the
// lowest bit says whether so many bytes of the base are taken, from the place that follows, or
// whether they follow themselves.

// block is the length of the pieces by which the base is searched.
const block = 16

// appendDelta appends to b what makes text of base.
func appendDelta(b, base, text []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	index := indexOf(base)
	plain := 0 // where what is in no step yet begins
	for at := 0; at+block <= len(text); {
		from, ok := index.find(base, text[at:at+block])
		if !ok {
			at++
			continue
		}
		to := at + block
		for end := from + block; end < len(base) && to < len(text) && base[end] == text[to]; end++ {
			to++
		}
		for from > 0 && at > plain && base[from-1] == text[at-1] {
			from, at = from-1, at-1
		}
		b = appendPlain(b, text[plain:at])
		b = binary.AppendUvarint(b, uint64(to-at)<<1|1)
		b = binary.AppendUvarint(b, uint64(from))
		at, plain = to, to
	}
	return appendPlain(b, text[plain:])
}

func appendPlain(b, text []byte) []byte {
	if len(text) == 0 {
		return b
	}
	return append(binary.AppendUvarint(b, uint64(len(text))<<1), text...)
}

// An index has the places of the blocks of a text, each after its number plus one.
type index struct {
	places []int32
	shift  int
}

func indexOf(base []byte) index {
	width := bits.Len(uint(len(base) / block * 2))
	x := index{places: make([]int32, 1<<width), shift: 64 - width}
	for from := 0; from+block <= len(base); from += block {
		x.places[x.place(base[from:])] = int32(from/block) + 1
	}
	return x
}

func (x index) place(b []byte) uint64 {
	one, other := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	return (one*0x9E3779B97F4A7C15 ^ bits.RotateLeft64(other, 29)*0xC2B2AE3D27D4EB4F) >> x.shift
}

// find returns where in the base a block is, if it is known.
func (x index) find(base, b []byte) (from int, ok bool) {
	n := x.places[x.place(b)]
	if n == 0 {
		return 0, false
	}
	from = int(n-1) * block
	return from, string(base[from:from+block]) == string(b)
}

// errDelta says that something is no delta of its base.
var errDelta = errors.New("it is no change of what was said before")

// applyDelta returns the text that a delta makes of base, if it is of at most so many bytes.
func applyDelta(base, delta []byte, most int) ([]byte, error) {
	size, delta, err := cutNumber(delta)
	if err != nil || size > uint64(most) {
		return nil, errDelta
	}
	text := make([]byte, 0, size)
	for len(delta) > 0 {
		var n uint64
		if n, delta, err = cutNumber(delta); err != nil {
			return nil, errDelta
		}
		from, taken := delta, n&1 == 1
		n >>= 1
		if taken {
			var at uint64
			if at, delta, err = cutNumber(delta); err != nil || at > uint64(len(base)) {
				return nil, errDelta
			}
			from = base[at:]
		}
		if n == 0 || n > uint64(len(from)) || n > size-uint64(len(text)) {
			return nil, errDelta
		}
		text = append(text, from[:n]...)
		if !taken {
			delta = delta[n:]
		}
	}
	if uint64(len(text)) != size {
		return nil, errDelta
	}
	return text, nil
}
