// Package wire turns an engine's messages into CloudEvents and back.
//
// One event carries one row of a table. Its attributes say what a link and a log need to
// know without the data; its data, application/json, is the value, absent in a tombstone:
//
//	id               unique within the log
//	source           argocd-agent://<identity of the writer>
//	type             a row of the table in types.go
//	subject          the key, see Name
//	time             when it was written, for people
//	protocolversion  of this encoding, see Range
//	digest           stands for the value; absent in a tombstone
//	uid, by, phase, after   of a state; uid and after also of a tombstone
//
// What is secret travels as the type sealed: as a state is, but for its data, which only
// the two sides of the link can read.
//
//	uid, by, phase, after   of it, too
//	traceparent, tracestate where there is a trace
//
// Encoding is exact: what Decode returns has the Digest of what Encode was given, and an
// object's parts are the same text, byte for byte.
package wire

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// Why an event cannot be read, given wrapped in an Error. transport.ErrVersion is another
// reason.
var (
	ErrType      = errors.New("unknown type of event")
	ErrMalformed = errors.New("malformed event")
	ErrDigest    = errors.New("value does not have the digest that the event names")
	ErrKey       = errors.New("it is secret, and there is no key of the peer for it yet")
)

// An Error says which event could not be read, and why. It concerns that event alone.
type Error struct {
	ID   string
	Type string
	Key  string
	Err  error
}

// Error names the event and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("wire: decode event %q of type %q for key %q: %v", e.ID, e.Type, e.Key, e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// An Envelope is what an event says beside its message.
type Envelope struct {
	ID          string    // unique within the log that the event goes to
	Source      string    // identity of the writer
	Time        time.Time // of writing
	Traceparent string    // W3C trace context, "" if there is none
	Tracestate  string
	Pair        *seal.Pair // seals what is secret; nil if the peer's key is not known
	Version     int        // the protocol version to write in; 0 is Newest
}

// Encode returns m as an event. It fails if m cannot be written exactly: if its key has no
// name, a part is no JSON, or a text is not valid UTF-8; and with ErrKey if it is secret and
// the digest of it is not of the envelope's Pair.
func Encode(m engine.Message, e Envelope) (transport.Message, error) {
	name := Name(m.Key)
	fail := func(err error) (transport.Message, error) {
		return transport.Message{}, fmt.Errorf("wire: encode %s: %w", name, err)
	}
	if k, err := Key(name); err != nil {
		return fail(err)
	} else if k != m.Key {
		return fail(fmt.Errorf("%w: the key is not a name", ErrMalformed))
	}
	r, p, err := payloadOf(m)
	if err != nil {
		return fail(err)
	}
	digest := string(m.Body.Digest())
	if secret(m) {
		if r.name, p.data, err = closed(m, p.data, e.Pair); err != nil {
			return fail(err)
		}
	}
	ev := event.New()
	ev.SetID(e.ID)
	ev.SetSource(source(e.Source))
	ev.SetType(Prefix + r.name)
	ev.SetSubject(name)
	ev.SetTime(e.Time)
	p.extensions.set("protocolversion", strconv.Itoa(cmp.Or(e.Version, Newest)))
	p.extensions.set("digest", digest)
	p.extensions.set("traceparent", e.Traceparent)
	p.extensions.set("tracestate", e.Tracestate)
	for k := range p.extensions {
		if err := plain(p.extensions.text(k)); err != nil {
			return fail(fmt.Errorf("%s: %w", k, err))
		}
	}
	ev.Context.(*event.EventContextV1).Extensions = p.extensions
	if p.data != nil {
		ev.SetDataContentType(event.ApplicationJSON)
		ev.DataEncoded = p.data
	}
	if err := ev.Validate(); err != nil {
		return fail(err)
	}
	return transport.Message{Key: name, Digest: digest, Event: ev}, nil
}

// Decode is the inverse of Encode. Its error is an *Error: ErrType for a type that this
// version does not know, transport.ErrVersion for a protocol version that is not Spoken,
// ErrMalformed, ErrDigest, or ErrKey for what is sealed if there is no Pair. Fields of the data
// that it does not know it leaves out.
func Decode(t transport.Message, p *seal.Pair) (engine.Message, error) { return Spoken().Decode(t, p) }

// Decode is as the function of that name, for a reader of these versions.
func (r Range) Decode(t transport.Message, p *seal.Pair) (engine.Message, error) {
	if t.Event.Context == nil {
		return engine.Message{}, &Error{Key: t.Key, Err: fmt.Errorf("%w: no event", ErrMalformed)}
	}
	m, err := decode(t, p, r)
	if err != nil {
		return engine.Message{}, &Error{ID: t.Event.ID(), Type: t.Event.Type(), Key: t.Key, Err: err}
	}
	return m, nil
}

func decode(t transport.Message, pair *seal.Pair, read Range) (m engine.Message, err error) {
	ev := t.Event
	if ev.SpecVersion() != event.CloudEventsVersionV1 {
		return m, fmt.Errorf("%w: CloudEvents %q", ErrMalformed, ev.SpecVersion())
	}
	p := payload{extensions: extended(ev), data: ev.Data()}
	if err := read.check(p.extensions.text("protocolversion")); err != nil {
		return m, err
	}
	r, err := rowNamed(ev.Type())
	if err != nil {
		return m, err
	}
	if m.Key, err = Key(t.Key); err != nil {
		return m, err
	}
	switch {
	case ev.Subject() != t.Key:
		return m, fmt.Errorf("%w: its subject is %q", ErrMalformed, ev.Subject())
	case !r.keys(m.Key):
		return m, fmt.Errorf("%w: a %s has another key", ErrMalformed, r.name)
	case len(p.data) > 0 && ev.DataMediaType() != event.ApplicationJSON:
		return m, fmt.Errorf("%w: data is %q", ErrMalformed, ev.DataContentType())
	case !utf8.Valid(p.data):
		return m, fmt.Errorf("%w: data is not valid UTF-8", ErrMalformed)
	}
	if r.name == sealed {
		m.Body, err = unseal(r, p, t, pair)
	} else {
		m.Body, err = r.decode(p)
	}
	switch {
	case err != nil:
		return m, err
	case secret(m) != (r.name == sealed):
		return m, fmt.Errorf("%w: what is secret must be sealed, and nothing else", ErrMalformed)
	}
	if is, said := string(m.Body.Digest()), p.extensions.text("digest"); is != said || is != t.Digest {
		return m, fmt.Errorf("%w: %q, not %q", ErrDigest, is, cmp.Or(said, t.Digest))
	}
	return m, nil
}

// Posted returns when an event says that it was written, and its W3C traceparent; nothing of
// what it does not say.
func Posted(t transport.Message) (written time.Time, traceparent string) {
	if t.Event.Context == nil {
		return written, ""
	}
	return t.Event.Time(), strings.Clone(extended(t.Event).text("traceparent"))
}

// texts are extensions by name: text, which is what they are on most links, or what can be written
// as text.
type texts map[string]any

// extended returns the extensions as they are, which are not to be changed: an event copies them for
// who asks it.
func extended(ev event.Event) texts {
	if c, ok := ev.Context.(*event.EventContextV1); ok {
		return c.Extensions
	}
	return ev.Extensions()
}

// text returns that of a name, "" where there is none.
func (t texts) text(name string) string {
	v, there := t[name]
	if s, ok := v.(string); ok || !there {
		return s
	}
	s, err := types.Format(v)
	if err != nil {
		return ""
	}
	return s
}

// set adds a text, unless it is "", which is none.
func (t texts) set(name, text string) {
	if text != "" {
		t[name] = text
	}
}

// plain reports whether every link carries an attribute of this text unchanged.
func plain(text string) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) || strings.TrimSpace(text) != text {
		return fmt.Errorf("%w: %q is not plain text", ErrMalformed, text)
	}
	return nil
}

func source(identity string) string {
	return (&url.URL{Scheme: "argocd-agent", Host: identity}).String()
}

// CheckSource returns why events cannot say that they are from a side of that identity.
func CheckSource(identity string) error {
	if u, err := url.Parse(source(identity)); err != nil || u.Host != identity {
		return fmt.Errorf("wire: identity %q: it is to be a name, or an id, as in a URL", identity)
	}
	return nil
}
