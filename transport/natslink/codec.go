package natslink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	cejs "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/nats-io/nats.go"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// Headers of a stored message, next to those of its CloudEvent.
const (
	ceHeader     = "ce-"           // what every header of a CloudEvent begins with
	digestHeader = "Fabric-Digest" // Message.Digest; absent in a tombstone
	epochHeader  = "Fabric-Epoch"  // in a copy: the log that the message is of
	seqHeader    = "Fabric-Seq"    // in a copy: its place there
)

// Bounds of a Message. The server takes 64 KiB of headers, some of which are ours.
const (
	maxPayload = 8 << 20
	maxHeaders = 56 << 10
	maxKey     = 1 << 10
)

// encode returns m as it is stored under a subject that begins with prefix: its
// CloudEvent in binary mode, so that others who speak CloudEvents over NATS can read it.
func encode(prefix string, m transport.Message) (*nats.Msg, error) {
	if len(m.Key) > maxKey || m.Key == "" || strings.IndexByte(m.Key, 0) >= 0 {
		return nil, fmt.Errorf("key %.80q of %d bytes: %w", m.Key, len(m.Key), errBadKey)
	}
	if len(m.Event.Data()) > transport.MaxMessage {
		return nil, fmt.Errorf("%d bytes of data: %w", len(m.Event.Data()), transport.ErrTooLarge)
	}
	if m.Tombstone() && len(m.Event.Data()) > 0 {
		return nil, errors.New("tombstone with data")
	}
	if err := m.Event.Validate(); err != nil {
		return nil, fmt.Errorf("event is invalid: %w", err)
	}
	var body body
	header, err := cejs.WriteMsg(context.Background(), (*binding.EventMessage)(&m.Event), &body)
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	size := 0
	for k, values := range header {
		for i := range values {
			values[i] = escapeHeader(values[i])
			size += len(k) + len(values[i]) + len(": \r\n")
		}
	}
	if size > maxHeaders {
		return nil, fmt.Errorf("%d bytes of headers: %w", size, transport.ErrTooLarge)
	}
	if !m.Tombstone() {
		header.Set(digestHeader, escapeHeader(m.Digest))
	}
	return &nats.Msg{Subject: prefix + encodeKey(m.Key), Header: header, Data: body}, nil
}

var errBadKey = errors.New("a key is 1 to 1024 bytes without NUL")

// A body takes an event's data without copying what it can borrow.
type body []byte

// ReadFrom makes b what r holds.
func (b *body) ReadFrom(r io.Reader) (int64, error) {
	data, err := io.ReadAll(r)
	*b = data
	return int64(len(data)), err
}

// decode returns the Message that encode has made m of.
func decode(prefix string, m *nats.Msg) (transport.Message, error) {
	tail, ok := strings.CutPrefix(m.Subject, prefix)
	if !ok {
		return transport.Message{}, fmt.Errorf("subject %.80q does not begin with %q", m.Subject, prefix)
	}
	key, err := decodeKey(tail)
	if err != nil {
		return transport.Message{}, err
	}
	header := make(nats.Header, len(m.Header))
	for k, values := range m.Header {
		if strings.HasPrefix(k, ceHeader) && len(values) > 0 {
			value, err := url.PathUnescape(values[0])
			if err != nil {
				return transport.Message{}, fmt.Errorf("header %.80q: %w", k, err)
			}
			header[k] = []string{value}
		}
	}
	data := m.Data
	if len(data) == 0 {
		data = nil
	}
	event, err := binding.ToEvent(context.Background(), cejs.NewMessage(&nats.Msg{Header: header, Data: data}))
	if err != nil {
		return transport.Message{}, fmt.Errorf("key %.80q: decode event: %w", key, err)
	}
	if err := event.Validate(); err != nil {
		return transport.Message{}, fmt.Errorf("key %.80q: event is invalid: %w", key, err)
	}
	digest, err := url.PathUnescape(m.Header.Get(digestHeader))
	if err != nil {
		return transport.Message{}, fmt.Errorf("key %.80q: digest: %w", key, err)
	}
	return transport.Message{Key: key, Digest: digest, Event: *event}, nil
}

// escapeHeader escapes what a NATS header would change: line breaks, other control
// characters, and spaces at the ends. It is the escaping of CloudEvents over HTTP.
func escapeHeader(s string) string {
	var b bytes.Buffer
	for i := range len(s) {
		c := s[i]
		edge := i == 0 || i == len(s)-1
		if c < ' ' || c == 0x7f || c == '%' || (c == ' ' && edge) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
