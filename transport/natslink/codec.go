package natslink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	cejs "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
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
	header := attributes(m.Event)
	size := 0
	for k, values := range header {
		values[0] = escapeHeader(values[0])
		size += len(k) + len(values[0]) + len(": \r\n")
	}
	if size > maxHeaders {
		return nil, fmt.Errorf("%d bytes of headers: %w", size, transport.ErrTooLarge)
	}
	if !m.Tombstone() {
		header.Set(digestHeader, escapeHeader(m.Digest))
	}
	return &nats.Msg{Subject: prefix + encodeKey(m.Key), Header: header, Data: m.Event.Data()}, nil
}

var errBadKey = errors.New("a key is 1 to 1024 bytes without NUL")

// attributes returns what an event says of itself as headers, as the CloudEvents SDK does; its way there
// costs as much as to compress the event.
func attributes(e event.Event) nats.Header {
	c := e.Context.AsV1()
	header := make(nats.Header, 10+len(c.Extensions))
	values := make([]string, 0, 10+len(c.Extensions))
	set := func(name, value string) {
		values = append(values, value)
		header[ceHeader+name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("specversion", event.CloudEventsVersionV1)
	set("id", c.ID)
	set("source", c.Source.String())
	set("type", c.Type)
	for name, value := range map[string]*string{"datacontenttype": c.DataContentType, "subject": c.Subject} {
		if value != nil {
			set(name, *value)
		}
	}
	if c.DataSchema != nil {
		set("dataschema", c.DataSchema.String())
	}
	if c.Time != nil {
		set("time", c.Time.Format(time.RFC3339Nano))
	}
	for name, value := range c.Extensions {
		set(name, fmt.Sprint(value))
	}
	return header
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
	header, err := unescaped(m.Header)
	if err != nil {
		return transport.Message{}, err
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

// unescaped returns the headers of an event as they were before escapeHeader, and no others.
func unescaped(all nats.Header) (nats.Header, error) {
	header := make(nats.Header, len(all))
	for k, values := range all {
		if !strings.HasPrefix(k, ceHeader) || len(values) == 0 {
			continue
		}
		if strings.IndexByte(values[0], '%') >= 0 {
			value, err := url.PathUnescape(values[0])
			if err != nil {
				return nil, fmt.Errorf("header %.80q: %w", k, err)
			}
			values = []string{value}
		}
		header[k] = values[:1]
	}
	return header, nil
}

// escapeHeader escapes what a NATS header would change: line breaks, other control
// characters, and spaces at the ends. It is the escaping of CloudEvents over HTTP.
func escapeHeader(s string) string {
	if strings.IndexFunc(s, changed) < 0 && !strings.HasPrefix(s, " ") && !strings.HasSuffix(s, " ") {
		return s
	}
	var b bytes.Buffer
	for i := range len(s) {
		c := s[i]
		edge := i == 0 || i == len(s)-1
		if changed(rune(c)) || (c == ' ' && edge) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// changed reports whether a header cannot hold c.
func changed(c rune) bool { return c < ' ' || c == 0x7f || c == '%' }
