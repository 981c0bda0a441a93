package natslink

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// readsBrief is the hello.Reads of a program that reads what is in this file.
//
// Who has told the other end's Link its hello need not tell it again: what either then says is brief.
// An ask names both ends by their marks, and the log that it has read likewise. An answer says only what
// differs from the ask, and compresses its rows. Whoever is asked by a mark that is not the last it was
// told gives its own hello and nothing else, and is told then.
const readsBrief = 1

// The first byte of what is brief. Neither begins JSON, nor an answer with a head of it.
const (
	briefAsk    = 1
	briefAnswer = 0
)

// Flags of what is brief.
const (
	flagAgain    = 1 << iota // ask: Again
	flagBye                  // answer: Bye
	flagNamed                // answer: the hello follows
	flagMoved                // answer: Upto follows, which is not what the ask has
	flagSqueezed             // answer: rows are compressed
)

// A mark stands for a random name, of a Link or of a log; 0 is for none. Who makes names that collide
// deceives nobody but whoever follows its own log.
type mark uint64

func markOf(name string) mark {
	if name == "" {
		return 0
	}
	return mark(linkNumber(name))
}

// A brief is what an ask says that is brief, beside what others do.
type brief struct {
	from   mark   // who asks
	knows  mark   // whose hello it has
	log    mark   // which log it has read
	number uint64 // of the ask: each has the next
	holds  uint64 // the number of the peer's ask that waits for an answer; 0 is none
}

// number returns the number of a, 0 if it has none.
func (a ask) number() uint64 {
	if a.brief == nil {
		return 0
	}
	return a.brief.number
}

func (a ask) marshalBrief() []byte {
	flags := byte(0)
	if a.Again {
		flags = flagAgain
	}
	b := []byte{briefAsk, flags}
	for _, m := range []mark{a.brief.from, a.brief.knows, a.brief.log} {
		b = binary.BigEndian.AppendUint64(b, uint64(m))
	}
	for _, n := range []uint64{a.Have.Seq, uint64(a.Hold), a.brief.number, a.brief.holds} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// unmarshalBriefAsk reads an ask but for its Hello and the name of the log.
func unmarshalBriefAsk(data []byte) (ask, error) {
	f := frame{rest: data[1:]}
	again := f.byte()&flagAgain != 0
	b := &brief{from: f.mark(), knows: f.mark(), log: f.mark()}
	a := ask{Have: position{Seq: f.number()}, Hold: int64(f.number()), Again: again, brief: b}
	b.number, b.holds = f.number(), f.number()
	if f.bad || a.Hold < 0 || b.from == 0 {
		return ask{}, errors.New("ask: cut off, nameless, or with negative hold")
	}
	return a, nil
}

// marshalBrief returns a as the answer to to.
func (a answer) marshalBrief(to ask, s *squeezer) ([]byte, error) {
	b := make([]byte, 2, 64)
	b[0] = briefAnswer
	if a.Bye {
		b[1] |= flagBye
	}
	if a.named {
		head, err := json.Marshal(a.Hello)
		if err != nil {
			return nil, err
		}
		b[1] |= flagNamed
		b = appendText(b, string(head))
	}
	if a.Upto != to.Have {
		epoch := a.Upto.Epoch
		if epoch == to.Have.Epoch {
			epoch = ""
		}
		b[1] |= flagMoved
		b = binary.AppendUvarint(appendText(b, epoch), a.Upto.Seq)
	}
	rows, squeezed := s.squeeze(a.marshalRows(make([]byte, 0, a.size())))
	if squeezed {
		b[1] |= flagSqueezed
	}
	return append(b, rows...), nil
}

// unmarshalBriefAnswer reads an answer to to, by known if it names nobody, from a peer that may be
// hostile.
func unmarshalBriefAnswer(data []byte, to ask, known hello, s *squeezer) (answer, error) {
	f := frame{rest: data[1:]}
	flags := f.byte()
	a := answer{Hello: known, Upto: to.Have, Bye: flags&flagBye != 0, named: flags&flagNamed != 0}
	if a.named {
		head := f.text()
		if len(head) > maxAsk {
			return answer{}, fmt.Errorf("answer: head of %d bytes", len(head))
		}
		a.Hello = hello{}
		if err := json.Unmarshal(head, &a.Hello); err != nil {
			return answer{}, fmt.Errorf("answer: %w", err)
		}
	}
	if flags&flagMoved != 0 {
		if epoch := string(f.text()); epoch != "" {
			a.Upto.Epoch = epoch
		}
		a.Upto.Seq = f.number()
	}
	if f.bad || a.Hello.Link == "" {
		return answer{}, errors.New("answer: cut off, or nameless")
	}
	if flags&flagSqueezed != 0 {
		rows, err := s.open(f.rest)
		if err != nil {
			return answer{}, fmt.Errorf("answer: %w", err)
		}
		f.rest = rows
	}
	return a.withRows(f)
}

func (f *frame) byte() byte {
	if len(f.rest) == 0 {
		f.bad = true
		return 0
	}
	b := f.rest[0]
	f.rest = f.rest[1:]
	return b
}

func (f *frame) mark() mark {
	if len(f.rest) < 8 {
		f.bad, f.rest = true, nil
		return 0
	}
	m := binary.BigEndian.Uint64(f.rest)
	f.rest = f.rest[8:]
	return mark(m)
}
