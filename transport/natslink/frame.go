package natslink

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A hello is what each side says of itself in everything it says.
type hello struct {
	Link    string `json:"link"` // random, another one each time that a Link is opened
	Process string `json:"process"`
	Version string `json:"version,omitempty"`
	Oldest  int    `json:"oldest,omitempty"`
	Newest  int    `json:"newest,omitempty"`
	// Reads is which frames it reads, beside those of JSON: see readsBrief.
	Reads int `json:"reads,omitempty"`
}

func (h hello) presence() transport.Presence {
	return transport.Presence{Process: h.Process, Version: h.Version, Oldest: h.Oldest, Newest: h.Newest}
}

// A position is a place in a log: everything up to Seq in the log named Epoch.
type position struct {
	Epoch string `json:"epoch,omitempty"`
	Seq   uint64 `json:"seq,omitempty"`
}

// An ask is what the reader of a copy says to the writer of the log: I have this much,
// give me what follows. It is answered as soon as there is more, or after Hold.
type ask struct {
	Hello hello    `json:"hello"`
	Have  position `json:"have"`
	Hold  int64    `json:"hold"` // milliseconds
	// Again is that what was said before may be lost on the way, in either direction.
	Again bool `json:"again,omitempty"`

	brief *brief // nil if it is in JSON
}

// An answer carries the rows that follow. Once the reader has stored them it has all up
// to Upto, which is never less than what it had, unless Epoch is another.
type answer struct {
	Hello hello    `json:"hello"`
	Upto  position `json:"upto"`
	Bye   bool     `json:"bye,omitempty"` // the process is about to end
	rows  []row

	named bool // it says Hello, also if it is brief
}

// A row is a message as it is stored: in a log, or in a copy of it.
type row struct {
	seq    uint64 // its place in the stream that it was read from
	tail   string // of its subject: the key, encoded
	header nats.Header
	data   []byte
}

// size is about what r takes in an answer.
func (r row) size() int {
	n := len(r.tail) + len(r.data) + 16
	for k, values := range r.header {
		for _, v := range values {
			n += len(k) + len(v) + 4
		}
	}
	return n
}

// Bounds of what a peer may say, who may be hostile. An ask, and the head of an answer, are
// JSON of a few short texts. An answer has no more rows than a batch, and a row no more headers
// than a Message: small ones would otherwise take a hundred times as much memory as they are long.
const (
	maxAsk        = 4 << 10
	maxRowHeaders = maxHeaders + 8<<10
)

func (a ask) marshal() ([]byte, error) {
	if a.brief != nil {
		return a.marshalBrief(), nil
	}
	return json.Marshal(a)
}

func unmarshalAsk(data []byte) (ask, error) {
	var a ask
	if len(data) > maxAsk {
		return a, fmt.Errorf("ask of %d bytes", len(data))
	}
	if len(data) > 0 && data[0] == briefAsk {
		return unmarshalBriefAsk(data)
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("ask: %w", err)
	}
	if a.Hello.Link == "" || a.Hold < 0 {
		return a, errors.New("ask: nameless, or with negative hold")
	}
	return a, nil
}

// size is about what the rows of a take.
func (a answer) size() int {
	n := 0
	for _, r := range a.rows {
		n += r.size()
	}
	return n
}

// marshal returns a as a frame: its head in JSON, then its rows, every text preceded by
// its length.
func (a answer) marshal() ([]byte, error) {
	head, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	return a.marshalRows(appendText(make([]byte, 0, len(head)+16+a.size()), string(head))), nil
}

// answers returns a as the answer to to: brief, if who has asked reads that.
func (a answer) answers(to ask, s *squeezer) ([]byte, error) {
	if to.Hello.Reads < readsBrief && to.brief == nil {
		return a.marshal()
	}
	return a.marshalBrief(to, s)
}

func (a answer) marshalRows(b []byte) []byte {
	for _, r := range a.rows {
		b = appendRow(b, r)
	}
	return b
}

func appendRow(b []byte, r row) []byte {
	b = binary.AppendUvarint(b, r.seq)
	b = appendText(b, r.tail)
	b = binary.AppendUvarint(b, uint64(len(r.header)))
	var room [usualHeaders]string
	names := slices.AppendSeq(room[:0], maps.Keys(r.header))
	slices.Sort(names) // in an order that repeats itself
	for _, k := range names {
		b = appendText(b, k)
		b = appendText(b, r.header[k][0])
	}
	return appendText(b, r.data)
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// unmarshalAnswer reads a frame from a peer that may be hostile: the answer to to, by known if it names
// nobody.
func unmarshalAnswer(data []byte, to ask, known hello, s *squeezer) (answer, error) {
	if len(data) > 0 && data[0] == briefAnswer {
		return unmarshalBriefAnswer(data, to, known, s)
	}
	a := answer{named: true}
	f := frame{rest: data}
	head := f.text()
	if len(head) > maxAsk {
		return answer{}, fmt.Errorf("answer: head of %d bytes", len(head))
	}
	if err := json.Unmarshal(head, &a); err != nil {
		return answer{}, fmt.Errorf("answer: %w", err)
	}
	if a.Hello.Link == "" {
		return answer{}, errors.New("answer: nameless")
	}
	return a.withRows(f)
}

// withRows returns a with the rows that are left of its frame. They ascend, and none is beyond Upto.
func (a answer) withRows(f frame) (answer, error) {
	var last uint64
	for len(f.rest) > 0 && !f.bad {
		if len(a.rows) == batchRows {
			return answer{}, fmt.Errorf("answer: more than %d rows", batchRows)
		}
		r := f.row(maxRowHeaders)
		if r.seq <= last || r.seq > a.Upto.Seq {
			return answer{}, fmt.Errorf("answer: row %d after %d and up to %d", r.seq, last, a.Upto.Seq)
		}
		last = r.seq
		a.rows = append(a.rows, r)
	}
	if f.bad {
		return answer{}, errors.New("answer: frame is cut off")
	}
	return a, nil
}

// A frame is the rest of one that is being read. Once bad, it stays so.
type frame struct {
	rest []byte
	bad  bool
}

func (f *frame) number() uint64 {
	n, size := binary.Uvarint(f.rest)
	if size <= 0 {
		f.bad, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

func (f *frame) text() []byte {
	n := f.number()
	if n > uint64(len(f.rest)) {
		f.bad, f.rest = true, nil
		return nil
	}
	text := f.rest[:n:n]
	f.rest = f.rest[n:]
	return text
}

// row reads a row that has so many bytes of headers at most.
func (f *frame) row(headers int) row {
	r := row{seq: f.number(), tail: string(f.text())}
	start := len(f.rest)
	n := f.number()
	likely := min(n, usualHeaders) // a peer may say any number
	r.header = make(nats.Header, likely)
	values := make([]string, 0, likely)
	for ; n > 0 && !f.bad; n-- {
		k := string(f.text())
		values = append(values, string(f.text()))
		r.header[k] = values[len(values)-1 : len(values) : len(values)]
		f.bad = f.bad || start-len(f.rest) > headers
	}
	r.data = f.text()
	return r
}

// usualHeaders is more than what a row has, of ours.
const usualHeaders = 20
