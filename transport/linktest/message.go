package linktest

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// number is the extension by which the suite numbers its messages: of two of one key the
// higher was sent later.
const number = "number"

// message returns the n-th message, for key.
func message(key string, n int) transport.Message {
	m := tombstone(key, n)
	m.Digest = fmt.Sprintf("digest-%d", n)
	m.Event.SetType("linktest.value")
	// SetData fails only for what is not bytes.
	_ = m.Event.SetData(event.ApplicationJSON, []byte(`{"number":`+strconv.Itoa(n)+`}`))
	return m
}

// tombstone returns the n-th message, which says that key has no value.
func tombstone(key string, n int) transport.Message {
	e := event.New()
	e.SetID(strconv.Itoa(n))
	e.SetSource("/linktest")
	e.SetType("linktest.tombstone")
	e.SetExtension(number, strconv.Itoa(n))
	return transport.Message{Key: key, Event: e}
}

// count returns the number of m, 0 if it has none.
func count(m transport.Message) int {
	if m.Event.Context == nil {
		return 0
	}
	n, _ := strconv.Atoi(extensions(m.Event)[number])
	return n
}

// A plain is what a Link keeps of a Message, in a form that can be compared and read.
type plain struct {
	Key, Digest, ID, Source, Type, Subject, Time, ContentType, Data string
	Extensions                                                      map[string]string
}

func plainOf(m transport.Message) plain {
	p := headersOf(m)
	p.Data = string(m.Event.Data())
	if n := len(p.Data); n > 1024 {
		p.Data = fmt.Sprintf("%d bytes of SHA-256 %x", n, sha256.Sum256(m.Event.Data()))
	}
	return p
}

// headersOf leaves out the data, as Log may.
func headersOf(m transport.Message) plain {
	p := plain{
		Key: m.Key, Digest: m.Digest,
		ID: m.Event.ID(), Source: m.Event.Source(), Type: m.Event.Type(), Subject: m.Event.Subject(),
		ContentType: m.Event.DataContentType(),
		Extensions:  extensions(m.Event),
	}
	if t := m.Event.Time(); !t.IsZero() {
		p.Time = t.UTC().Format(time.RFC3339Nano)
	}
	return p
}

// extensions returns the extensions of e in their canonical form: that of a number or a
// time may come back as text.
func extensions(e event.Event) map[string]string {
	all := make(map[string]string, len(e.Extensions()))
	for k, v := range e.Extensions() {
		s, err := types.Format(v)
		if err != nil {
			s = fmt.Sprintf("unreadable: %v", err)
		}
		all[k] = s
	}
	return all
}
