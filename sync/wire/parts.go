package wire

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// membersOf returns the members of a JSON object as they stand in its text. Parts are large, and
// every row that comes is taken apart: what Encode writes, which has no space between members,
// is cut where it stands, once it is known to be JSON. All else is left to a decoder.
func membersOf(data []byte) (named map[string]json.RawMessage, err error) {
	if json.Valid(data) {
		if named, ok := cut(data); ok {
			return named, nil
		}
	}
	err = json.Unmarshal(data, &named)
	return named, err
}

// cut cuts valid JSON into members; false if it is no object, has spaces between its members, or
// names of them that are not what they look like.
func cut(data []byte) (map[string]json.RawMessage, bool) {
	if len(data) < 2 || data[0] != '{' || data[len(data)-1] != '}' {
		return nil, false
	}
	named := make(map[string]json.RawMessage, 4)
	for rest := data[1 : len(data)-1]; len(rest) > 0; {
		n, ok := resource.Span(rest)
		if !ok || n == len(rest) || rest[n] != ':' || !itself(rest[:n]) {
			return nil, false
		}
		name := string(rest[1 : n-1])
		rest = rest[n+1:]
		n, ok = resource.Span(rest)
		if value := rest[:n]; !ok || len(bytes.TrimSpace(value)) != n {
			return nil, false
		}
		named[name] = json.RawMessage(rest[:n])
		if rest = rest[n:]; len(rest) > 0 {
			rest = rest[1:] // the comma
		}
	}
	return named, true
}

// itself reports whether a member's name is what its text says, between quotes.
func itself(name []byte) bool {
	return len(name) > 1 && name[0] == '"' && name[len(name)-1] == '"' && bytes.IndexByte(name, '\\') < 0 && utf8.Valid(name)
}
