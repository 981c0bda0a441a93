package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A kind says what a frame means.
type kind uint8

// The kinds of frames.
const (
	frameOpen   kind = iota + 1 // text: the service. The sender opens the stream
	frameData                   // text: what was written
	frameFin                    // the sender writes no more
	frameLimit                  // number: how many bytes in all the sender allows to be sent on the stream
	frameStop                   // the sender reads no more: it has read all, or has closed
	frameRefuse                 // the sender does not take the stream
	frameTaken                  // number: how many bytes of data in all the sender has taken in; of no stream
	frameKinds
)

// A frame is the smallest thing that is said.
type frame struct {
	kind   kind
	id     id
	number uint64 // of frameLimit and frameTaken
	text   []byte // of frameOpen and frameData
}

// An id names a stream: one side has opened it, as its number-th of a session.
type id struct {
	number uint64
	mine   bool // this side has
}

// appendFrame appends a frame to a packet: its kind, its id, then what is of its kind. The
// lowest bit of the id says whether the sender of the frame has opened the stream.
func appendFrame(b []byte, f frame) []byte {
	opener := uint64(0)
	if f.id.mine {
		opener = 1
	}
	b = append(b, byte(f.kind))
	b = binary.AppendUvarint(b, f.id.number<<1|opener)
	switch f.kind {
	case frameOpen, frameData:
		b = binary.AppendUvarint(b, uint64(len(f.text)))
		b = append(b, f.text...)
	case frameLimit, frameTaken:
		b = binary.AppendUvarint(b, f.number)
	}
	return b
}

var errCutOff = errors.New("packet is cut off")

// cutFrame returns the first frame of a packet of the peer's, who may be hostile, and the
// rest. Its text is part of the packet.
func cutFrame(b []byte) (f frame, rest []byte, err error) {
	f.kind = kind(b[0])
	if f.kind == 0 || f.kind >= frameKinds {
		return f, nil, fmt.Errorf("frame of unknown kind %d", f.kind)
	}
	number, b, ok := cutNumber(b[1:])
	if !ok {
		return f, nil, errCutOff
	}
	f.id = id{number: number >> 1, mine: number&1 == 0}
	switch f.kind {
	case frameOpen, frameData:
		f.number, b, ok = cutNumber(b)
		if !ok || f.number > uint64(len(b)) {
			return f, nil, errCutOff
		}
		f.text, b, f.number = b[:f.number], b[f.number:], 0
	case frameLimit, frameTaken:
		f.number, b, ok = cutNumber(b)
	}
	if !ok {
		return f, nil, errCutOff
	}
	return f, b, nil
}

func cutNumber(b []byte) (n uint64, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 {
		return 0, nil, false
	}
	return n, b[size:], true
}
