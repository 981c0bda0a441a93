package resource

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Metadata is what an object's owner says in its metadata: labels and annotations,
// owned key by key, and those finalizers that belong to Argo CD's cascading deletion.
// Its text, see Metadata.Text, is the Meta part of an Object.
type Metadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty"`
}

// ParseMetadata reads the text of a Metadata. A text that is none reads as empty:
// texts come from this package, or from a peer whose metadata is then empty.
func ParseMetadata(text string) Metadata {
	var m Metadata
	if text != "" && json.Unmarshal([]byte(text), &m) != nil {
		return Metadata{}
	}
	return m
}

// Text returns the canonical text; that of an empty Metadata is "".
func (m Metadata) Text() string {
	if len(m.Labels)+len(m.Annotations)+len(m.Finalizers) == 0 {
		return ""
	}
	m.Finalizers = slices.Sorted(slices.Values(m.Finalizers))
	return encode(m)
}

// Keys returns m's label and annotation keys without their values: what
// Object.Ours holds for a copy to which m was written.
func (m Metadata) Keys() Metadata {
	blank := func(kv map[string]string) map[string]string {
		out := make(map[string]string, len(kv))
		for k := range kv {
			out[k] = ""
		}
		return out
	}
	return Metadata{Labels: blank(m.Labels), Annotations: blank(m.Annotations)}
}

// Overlay returns what m becomes when its owner says want: the owner's keys as the
// owner has them, gone if they are among ours and the owner has them no more, and
// every other key left alone. The finalizers are the owner's altogether.
func (m Metadata) Overlay(want, ours Metadata) Metadata {
	lay := func(have, want, ours map[string]string) map[string]string {
		out := maps.Clone(have)
		if out == nil {
			out = map[string]string{}
		}
		for k := range ours {
			delete(out, k)
		}
		maps.Copy(out, want)
		return out
	}
	return Metadata{
		Labels:      lay(m.Labels, want.Labels, ours.Labels),
		Annotations: lay(m.Annotations, want.Annotations, ours.Annotations),
		Finalizers:  want.Finalizers,
	}
}

// Only returns those of m's keys that are also among keys, and m's finalizers: the
// part of a copy's metadata that its owner speaks of.
func (m Metadata) Only(keys Metadata) Metadata {
	pick := func(have, keys map[string]string) map[string]string {
		out := map[string]string{}
		for k := range keys {
			if v, ok := have[k]; ok {
				out[k] = v
			}
		}
		return out
	}
	return Metadata{Labels: pick(m.Labels, keys.Labels), Annotations: pick(m.Annotations, keys.Annotations), Finalizers: m.Finalizers}
}

// Canonical returns the canonical JSON of a value that was decoded from JSON (with
// numbers as json.Number): keys sorted, no spaces, nothing escaped for HTML.
// nil is "".
func Canonical(v any) string {
	if v == nil {
		return ""
	}
	return encode(v)
}

// Decode is the inverse of Canonical; numbers come back as json.Number.
func Decode(text string) (any, error) {
	if text == "" {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return v, nil
}

// encode marshals what was unmarshalled before, or is made of strings: it cannot fail.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("resource: encode: " + err.Error())
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
