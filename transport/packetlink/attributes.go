package packetlink

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
)

// The attributes of an event are JSON, as the SDK writes and reads it. Nearly all are texts that stand
// for themselves, and those are written and read here, which is several times as fast, with a tenth of
// the garbage: it is done for each Message, on both sides. Whatever is not like that, is the SDK's.

// appendAttributes appends the attributes of an event.
func appendAttributes(b []byte, ev event.Event) ([]byte, error) {
	if c, ok := ev.Context.(*event.EventContextV1); ok {
		if all, ok := appendPlainly(b, c); ok {
			return all, nil
		}
	}
	ev.DataEncoded = nil
	text, err := json.Marshal(ev)
	if err != nil {
		return b, fmt.Errorf("packetlink: encode event: %w", err)
	}
	return append(b, text...), nil
}

// appendPlainly appends attributes that are texts which stand for themselves, in an order that is
// always the same: the next event of a key is written as a change of the one before.
func appendPlainly(b []byte, c *event.EventContextV1) ([]byte, bool) {
	if c.DataSchema != nil {
		return b, false
	}
	w := writer{b: append(b, `{"specversion":"1.0"`...), plain: true}
	w.add("id", c.ID)
	w.add("source", c.Source.String())
	w.add("type", c.Type)
	if c.Subject != nil {
		w.add("subject", *c.Subject)
	}
	if c.DataContentType != nil {
		w.add("datacontenttype", *c.DataContentType)
	}
	if c.Time != nil {
		w.add("time", c.Time.String())
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extensions)) {
		text, ok := c.Extensions[name].(string)
		w.plain = w.plain && ok && isExtension(name)
		w.add(name, text)
	}
	return append(w.b, '}'), w.plain
}

// A writer appends members of an object.
type writer struct {
	b     []byte
	plain bool // all of them could be written
}

func (w *writer) add(name, text string) {
	w.plain = w.plain && isPlain(text)
	w.b = append(append(append(w.b, ',', '"'), name...), '"', ':', '"')
	w.b = append(append(w.b, text...), '"')
}

// isPlain reports whether a text is the same in JSON.
func isPlain[T string | []byte](text T) bool {
	ascii := true
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c < ' ' || c == '"' || c == '\\' || c == 0x7f {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.ValidString(string(text))
}

// isExtension reports whether an attribute of that name is an extension, for sure.
func isExtension(name string) bool {
	switch name {
	case "", "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data",
		"schemaurl", "datacontentencoding":
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// readAttributes reads the attributes of an event.
func readAttributes(text []byte) (ev event.Event, err error) {
	if c := readPlainly(text); c != nil {
		return event.Event{Context: c}, nil
	}
	if err := json.Unmarshal(text, &ev); err != nil {
		return event.Event{}, fmt.Errorf("decode event: %w", err)
	}
	return ev, nil
}

// readPlainly is the inverse of appendPlainly; nil for what that does not write. What it returns are
// pieces of one copy of the text.
func readPlainly(text []byte) *event.EventContextV1 {
	all, object := strings.CutPrefix(string(text), "{")
	all, ended := strings.CutSuffix(all, "}")
	if !object || !ended {
		return nil
	}
	c := &event.EventContextV1{Extensions: make(map[string]any, 8)}
	version := ""
	for more := true; more; {
		var name, value string
		var ok bool
		if name, value, all, more, ok = cutMember(all); !ok || !setPlainly(c, &version, name, value) {
			return nil
		}
	}
	if version != event.CloudEventsVersionV1 || c.ID == "" || c.Type == "" || c.Source.URL == (url.URL{}) {
		return nil
	}
	if len(c.Extensions) == 0 {
		c.Extensions = nil
	}
	return c
}

// cutMember cuts the first member off those of an object; more says that another one follows.
func cutMember(all string) (name, value, rest string, more, ok bool) {
	if name, all, ok = cutQuoted(all); !ok {
		return "", "", "", false, false
	}
	if all, ok = strings.CutPrefix(all, ":"); !ok {
		return "", "", "", false, false
	}
	if value, all, ok = cutQuoted(all); !ok {
		return "", "", "", false, false
	}
	rest, more = strings.CutPrefix(all, ",")
	return name, value, rest, more, more || rest == ""
}

func cutQuoted(all string) (text, rest string, ok bool) {
	if all, ok = strings.CutPrefix(all, `"`); !ok {
		return "", "", false
	}
	text, rest, ok = strings.Cut(all, `"`)
	return text, rest, ok && isPlain(text)
}

// setPlainly sets an attribute. It reports false for one that it does not know what to make of, or that
// was set before.
func setPlainly(c *event.EventContextV1, version *string, name, value string) bool {
	switch name {
	case "specversion":
		return setOnce(version, value)
	case "id":
		return setOnce(&c.ID, value)
	case "type":
		return setOnce(&c.Type, value)
	case "subject":
		if c.Subject != nil {
			return false
		}
		c.Subject = new(string)
		return setOnce(c.Subject, value)
	case "datacontenttype":
		if c.DataContentType != nil {
			return false
		}
		c.DataContentType = new(string)
		return setOnce(c.DataContentType, value)
	case "source":
		ref := types.ParseURIRef(value)
		if ref == nil || c.Source.URL != (url.URL{}) {
			return false
		}
		c.Source = *ref
		return true
	case "time":
		at, err := types.ParseTimestamp(value)
		if err != nil || at == nil || c.Time != nil {
			return false
		}
		c.Time = at
		return true
	}
	if _, again := c.Extensions[name]; again || !isExtension(name) {
		return false
	}
	c.Extensions[name] = value
	return true
}

func setOnce(text *string, value string) bool {
	was := *text
	*text = value
	return was == "" && value != ""
}
