package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	p.extensions = map[string]string{"uid": r.UID, "by": r.By, "phase": r.Phase.String(), "after": string(r.After)}
	p.data, err = encodeParts(r.Parts)
	return p, true, err
}

func decodeRecord(p payload) (engine.Body, error) {
	phase, ok := engine.PhaseNamed(p.extensions["phase"])
	if !ok {
		return nil, fmt.Errorf("%w: phase %q", ErrMalformed, p.extensions["phase"])
	}
	for _, name := range []string{"uid", "by", "after"} {
		if err := plain(p.extensions[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	parts, err := decodeParts(p.data)
	if err != nil {
		return nil, err
	}
	return engine.Record{
		UID: p.extensions["uid"], By: p.extensions["by"], Phase: phase, Parts: parts, After: engine.Line(p.extensions["after"]),
	}, nil
}

// encodeParts returns the object that holds the parts by name. It is put together from
// their texts: an encoder would not leave those alone.
func encodeParts(parts resource.Parts) ([]byte, error) {
	b := []byte{'{'}
	for i := range resource.NumParts {
		text := parts[i]
		switch {
		case text == "":
			continue
		case !utf8.ValidString(text):
			return nil, fmt.Errorf("%w: %s is not valid UTF-8", ErrMalformed, i)
		case isText[i]:
			text = resource.Canonical(text)
		case !json.Valid([]byte(text)) || len(bytes.TrimSpace([]byte(text))) != len(text):
			return nil, fmt.Errorf("%w: %s is not JSON", ErrMalformed, i)
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, resource.Canonical(i.String())...)
		b = append(b, ':')
		b = append(b, text...)
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
	return payload{extensions: map[string]string{"uid": t.UID, "after": string(t.After)}}, ok, nil
}

func decodeTombstone(p payload) (engine.Body, error) {
	if len(p.data) > 0 {
		return nil, fmt.Errorf("%w: a tombstone has no data", ErrMalformed)
	}
	uid, after := p.extensions["uid"], p.extensions["after"]
	return engine.Tombstone{UID: uid, After: engine.Line(after)}, errors.Join(plain(uid), plain(after))
}
