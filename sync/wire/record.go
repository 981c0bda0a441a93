package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// isText says which parts are plain text; all others are JSON, and are embedded as they
// are.
var isText = [resource.NumParts]bool{
	resource.OpID: true, resource.Fault: true, resource.Terminate: true, resource.Refresh: true,
}

func encodeRecord(body engine.Body) (p payload, ok bool, err error) {
	r, ok := body.(engine.Record)
	if !ok {
		return p, false, nil
	}
	p.extensions = make(texts, 8)
	p.extensions.set("uid", r.UID)
	p.extensions.set("by", r.By)
	p.extensions.set("phase", r.Phase.String())
	p.extensions.set("after", string(r.After))
	p.data, err = encodeParts(r.Parts)
	return p, true, err
}

func decodeRecord(p payload) (engine.Body, error) {
	phase, ok := engine.PhaseNamed(p.extensions.text("phase"))
	if !ok {
		return nil, fmt.Errorf("%w: phase %q", ErrMalformed, p.extensions.text("phase"))
	}
	r := engine.Record{Phase: phase}
	var after string
	for _, of := range []struct {
		name string
		text *string
	}{{"uid", &r.UID}, {"by", &r.By}, {"after", &after}} {
		text := p.extensions.text(of.name)
		if err := plain(text); err != nil {
			return nil, fmt.Errorf("%s: %w", of.name, err)
		}
		*of.text = strings.Clone(text) // it is kept, and an event's attributes may be one text
	}
	var err error
	if r.Parts, err = decodeParts(p.data); err != nil {
		return nil, err
	}
	r.After = engine.Line(after)
	return r, nil
}

// encodeParts returns the object that holds the parts by name. It is put together from
// their texts: an encoder would not leave those alone.
func encodeParts(parts resource.Parts) ([]byte, error) {
	size := 2
	for i, text := range parts {
		size += len(text) + len(resource.Part(i).String()) + 4
	}
	b := append(make([]byte, 0, size), '{')
	for i := range resource.NumParts {
		text := parts[i]
		switch {
		case text == "":
			continue
		case !utf8.ValidString(text):
			return nil, fmt.Errorf("%w: %s is not valid UTF-8", ErrMalformed, i)
		case isText[i]:
			text = resource.Canonical(text)
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, i.String()...) // names need nothing but quotes
		b = append(b, '"', ':')
		from := len(b)
		b = append(b, text...)
		if value := b[from:]; !isText[i] && (!json.Valid(value) || len(bytes.TrimSpace(value)) != len(value)) {
			return nil, fmt.Errorf("%w: %s is not JSON", ErrMalformed, i)
		}
	}
	return append(b, '}'), nil
}

func decodeParts(data []byte) (parts resource.Parts, err error) {
	named, err := membersOf(data)
	if err != nil {
		return parts, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for name, raw := range named {
		p, ok := resource.PartNamed(name)
		if !ok {
			continue
		}
		parts[p] = string(raw)
		if isText[p] {
			if err := json.Unmarshal(raw, &parts[p]); err != nil {
				return parts, fmt.Errorf("%w: %s: %w", ErrMalformed, name, err)
			}
		}
	}
	return parts, nil
}

func encodeTombstone(body engine.Body) (p payload, ok bool, err error) {
	t, ok := body.(engine.Tombstone)
	if !ok {
		return p, false, nil
	}
	p.extensions = make(texts, 4)
	p.extensions.set("uid", t.UID)
	p.extensions.set("after", string(t.After))
	return p, true, nil
}

func decodeTombstone(p payload) (engine.Body, error) {
	if len(p.data) > 0 {
		return nil, fmt.Errorf("%w: a tombstone has no data", ErrMalformed)
	}
	uid, after := strings.Clone(p.extensions.text("uid")), strings.Clone(p.extensions.text("after"))
	return engine.Tombstone{UID: uid, After: engine.Line(after)}, errors.Join(plain(uid), plain(after))
}
