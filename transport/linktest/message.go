package linktest

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/stretchr/testify/require"

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

// A headers is what a Link keeps of a Message beside the data, in a form that can be
// compared and read.
type headers struct {
	Key, Digest, ID, Source, Type, Subject, Time, ContentType string
	Extensions                                                map[string]string
}

// same demands that got is what was sent.
func (w *world) same(sent, got transport.Message) {
	w.Helper()
	require.Equal(w, headersOf(sent), headersOf(got))
	if a, b := sent.Event.Data(), got.Event.Data(); !bytes.Equal(a, b) {
		require.Failf(w, "other data", "%.40q: sent %d bytes, got %d: %.100q and %.100q", sent.Key, len(a), len(b), a, b)
	}
}

func headersOf(m transport.Message) headers {
	h := headers{
		Key: m.Key, Digest: m.Digest,
		ID: m.Event.ID(), Source: m.Event.Source(), Type: m.Event.Type(), Subject: m.Event.Subject(),
		ContentType: m.Event.DataContentType(),
		Extensions:  extensions(m.Event),
	}
	if t := m.Event.Time(); !t.IsZero() {
		h.Time = t.UTC().Format(time.RFC3339Nano)
	}
	return h
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
