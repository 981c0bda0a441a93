package packetlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/argocd-fabric/argocd-agent/transport"
)

var errCut = errors.New("it is cut off")

// checkKey returns an error unless a key is what transport.Message says.
func checkKey(key string) error {
	if n := len(key); n == 0 || n > maxKey || strings.ContainsRune(key, 0) {
		return fmt.Errorf("a key is 1 to %d bytes without NUL", maxKey)
	}
	return nil
}

// Bounds of what a Message is beside its data.
const (
	maxKey        = 1 << 10
	maxDigest     = 4 << 10
	maxAttributes = 64 << 10
)

// checkHead returns transport.ErrTooLarge unless a digest and attributes are within bounds.
func checkHead(digest, attributes int) error {
	if digest > maxDigest || attributes > maxAttributes {
		return fmt.Errorf("%w: %d bytes of digest and %d of attributes", transport.ErrTooLarge, digest, attributes)
	}
	return nil
}

// A message is written as four texts: key, digest, the event's attributes as JSON, and its
// data, as they are.
func appendMessage(b []byte, m transport.Message) ([]byte, error) {
	var small [1 << 10]byte // where nearly all attributes find room
	attributes, err := appendAttributes(small[:0], m.Event)
	if err != nil {
		return b, err
	}
	if err := checkHead(len(m.Digest), len(attributes)); err != nil {
		return b, err
	}
	data := m.Event.DataEncoded
	b = slices.Grow(b, len(m.Key)+len(m.Digest)+len(attributes)+len(data)+4*binary.MaxVarintLen16)
	b = appendText(appendText(b, m.Key), m.Digest)
	return appendText(appendText(b, attributes), data), nil
}

// cutMessage reads the message at the beginning of b, and returns what is behind it.
func cutMessage(b []byte) (m transport.Message, rest []byte, err error) {
	var texts [4][]byte
	for i := range texts {
		if texts[i], b, err = cutText(b); err != nil {
			return m, nil, err
		}
	}
	if err := checkHead(len(texts[1]), len(texts[2])); err != nil {
		return m, nil, err
	}
	m.Key, m.Digest = string(texts[0]), string(texts[1])
	if m.Event, err = readAttributes(texts[2]); err != nil {
		return m, nil, err
	}
	if len(texts[3]) > 0 {
		m.Event.DataEncoded = texts[3]
	}
	return m, b, nil
}

// A text is written behind its length.
func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// cutText reads the text at the beginning of b, and returns what is behind it.
func cutText(b []byte) (text, rest []byte, err error) {
	n, b, err := cutNumber(b)
	if err != nil || n > uint64(len(b)) {
		return nil, nil, errCut
	}
	return b[:n:n], b[n:], nil
}

func cutNumber(b []byte) (n uint64, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 {
		return 0, nil, errCut
	}
	return n, b[size:], nil
}

// An account is what the reader of a log says first of its copy, and, since both sides read
// and write, of its own log.
type account struct {
	log   string // the epoch of its own log
	of    string // the epoch of the log that the copy was filled from last
	salt  string // of the sum
	count int    // of the rows that are counted
	sum   uint64 // of their marks
}

func (a account) append(b []byte) []byte {
	for _, text := range []string{a.log, a.of, a.salt} {
		b = appendText(b, text)
	}
	b = binary.AppendUvarint(b, uint64(a.count))
	return binary.BigEndian.AppendUint64(b, a.sum)
}

func cutAccount(b []byte) (a account, rest []byte, err error) {
	for _, text := range []*string{&a.log, &a.of, &a.salt} {
		var t []byte
		if t, b, err = cutText(b); err != nil {
			return a, nil, err
		}
		*text = string(t)
	}
	n, b, err := cutNumber(b)
	if err != nil || n > 2*MaxRows || len(b) < 8 {
		return a, nil, errCut
	}
	a.count, a.sum = int(n), binary.BigEndian.Uint64(b)
	return a, b[8:], nil
}

func appendSums(b []byte, of [buckets]uint64) []byte {
	for _, s := range of {
		b = binary.BigEndian.AppendUint64(b, s)
	}
	return b
}

func cutSums(b []byte) (of [buckets]uint64, rest []byte, err error) {
	if len(b) < 8*buckets {
		return of, nil, errCut
	}
	for i := range of {
		of[i], b = binary.BigEndian.Uint64(b), b[8:]
	}
	return of, b, nil
}

func appendMarks(b []byte, all []mark) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, m := range all {
		b = binary.BigEndian.AppendUint64(b, m.key)
		b = binary.BigEndian.AppendUint64(b, m.value)
	}
	return b
}

func cutMarks(b []byte) (all []mark, rest []byte, err error) {
	n, b, err := cutNumber(b)
	if err != nil || n > uint64(len(b)/markSize) {
		return nil, nil, errCut
	}
	for range n {
		all = append(all, mark{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])})
		b = b[markSize:]
	}
	return all, b, nil
}

// keys are some, each once, first come first served.
type keys struct {
	list []string
	has  map[string]bool
}

func (q *keys) len() int { return len(q.list) }

func (q *keys) push(k string) {
	if q.has == nil {
		q.has = map[string]bool{}
	}
	if !q.has[k] {
		q.has[k], q.list = true, append(q.list, k)
	}
}

func (q *keys) pop() string {
	k := q.list[0]
	q.list = q.list[1:]
	delete(q.has, k)
	return k
}
