package packetlink

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A message is written as four texts, each behind its length: key, digest, the event's
// attributes as JSON, and its data, as they are.
func appendMessage(b []byte, m transport.Message) ([]byte, error) {
	data := m.Event.DataEncoded
	m.Event.DataEncoded = nil
	attributes, err := json.Marshal(m.Event)
	if err != nil {
		return b, fmt.Errorf("packetlink: encode event: %w", err)
	}
	for _, text := range [][]byte{[]byte(m.Key), []byte(m.Digest), attributes, data} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return b, nil
}

// cutMessage reads the message at the beginning of b, and returns what is behind it.
func cutMessage(b []byte) (m transport.Message, rest []byte, err error) {
	var texts [4][]byte
	for i := range texts {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return m, nil, errors.New("it is cut off")
		}
		b = b[size:]
		texts[i], b = b[:n:n], b[n:]
	}
	m.Key, m.Digest = string(texts[0]), string(texts[1])
	if err := json.Unmarshal(texts[2], &m.Event); err != nil {
		return m, nil, fmt.Errorf("decode event: %w", err)
	}
	if len(texts[3]) > 0 {
		m.Event.DataEncoded = texts[3]
	}
	return m, b, nil
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
