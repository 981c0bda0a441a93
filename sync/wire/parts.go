package wire

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
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
		name := valueIn(rest)
		if len(name) == len(rest) || rest[len(name)] != ':' || !itself(name) {
			return nil, false
		}
		value := valueIn(rest[len(name)+1:])
		if len(bytes.TrimSpace(value)) != len(value) {
			return nil, false
		}
		named[string(name[1:len(name)-1])] = json.RawMessage(value)
		if rest = rest[len(name)+1+len(value):]; len(rest) > 0 {
			rest = rest[1:] // the comma
		}
	}
	return named, true
}

// itself reports whether a member's name is what its text says, between quotes.
func itself(name []byte) bool {
	return len(name) > 1 && name[0] == '"' && name[len(name)-1] == '"' && bytes.IndexByte(name, '\\') < 0 && utf8.Valid(name)
}

// valueIn returns the value with which valid JSON begins, up to what stands behind it.
func valueIn(text []byte) []byte {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case depth == 0 && (c == ',' || c == ':'):
			return text[:i]
		}
	}
	return text
}
