package principal

import (
	"strings"
	"unicode/utf8"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// aimed returns a spec with its destination made the cluster of a name or server, as aimAt makes
// it. It is done each time that anything of an Application is shown, so that only the piece of
// the canonical text which is about the destination is taken apart.
func aimed(spec, field, value string) string {
	from, to, ok := member(spec, "destination")
	if !ok {
		return changed(spec, aimAt(field, value))
	}
	if at, ok := pointed(spec[from:to], field, value); ok {
		return spec[:from] + at + spec[to:]
	}
	whole := map[string]any{}
	if v, err := resource.Decode(spec[from:to]); err != nil {
		return spec // no JSON, which has nothing to change
	} else if v != nil {
		whole["destination"] = v
	}
	aimAt(field, value)(whole)
	return spec[:from] + resource.Canonical(whole["destination"]) + spec[to:]
}

// pointed returns the canonical text of a destination with its name and server replaced by one
// field; false if the destination holds anything but plain texts, which nearly none does.
func pointed(destination, field, value string) (string, bool) {
	rest, ok := strings.CutPrefix(destination, "{")
	field, value = `"`+field+`"`, `"`+value+`"`
	if !ok || !plain(field) || !plain(value) || rest == "" {
		return "", false
	}
	var out strings.Builder
	out.Grow(len(destination) + len(field) + len(value) + 2)
	separator, placed := "{", false
	put := func(field, value string) {
		for _, text := range [...]string{separator, field, ":", value} {
			out.WriteString(text)
		}
		separator = ","
	}
	for rest != "}" {
		k, v, behind, ok := plainMember(rest)
		if !ok {
			return "", false
		}
		if rest = behind; k == `"name"` || k == `"server"` {
			continue
		}
		if !placed && k > field {
			put(field, value)
			placed = true
		}
		put(k, v)
	}
	if !placed {
		put(field, value)
	}
	return out.String() + "}", true
}

// plainMember cuts a member that is a plain text, and the comma behind it, from the text that is
// left of an object.
func plainMember(rest string) (key, value, behind string, ok bool) {
	n, ok := resource.Span(rest)
	if !ok || n == len(rest) || rest[n] != ':' {
		return "", "", "", false
	}
	key, rest = rest[:n], rest[n+1:]
	if n, ok = resource.Span(rest); !ok || n == len(rest) {
		return "", "", "", false
	}
	value, behind = rest[:n], rest[n:]
	if after, more := strings.CutPrefix(behind, ","); more {
		behind = after
	}
	return key, value, behind, plain(key) && plain(value) && behind != ""
}

// plain reports whether a JSON text is a string that says itself, letter by letter.
func plain(text string) bool {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return false
	}
	for i := 1; i < len(text)-1; i++ {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// member returns where the value of a member is in the canonical text of an object; false if it
// has none of that name, or is not understood.
func member(object, name string) (from, to int, ok bool) {
	rest, found := strings.CutPrefix(object, "{")
	for found {
		key, ok := resource.Span(rest)
		if !ok || key == len(rest) || rest[key] != ':' {
			return 0, 0, false
		}
		value, ok := resource.Span(rest[key+1:])
		if !ok {
			return 0, 0, false
		}
		end := key + 1 + value
		if rest[:key] == `"`+name+`"` {
			from = len(object) - len(rest) + key + 1
			return from, from + value, true
		}
		rest, found = strings.CutPrefix(rest[end:], ",")
	}
	return 0, 0, false
}
