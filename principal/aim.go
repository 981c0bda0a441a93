package principal

import (
	"strings"

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
	whole := map[string]any{}
	if v, err := resource.Decode(spec[from:to]); err != nil {
		return spec // no JSON, which has nothing to change
	} else if v != nil {
		whole["destination"] = v
	}
	aimAt(field, value)(whole)
	return spec[:from] + resource.Canonical(whole["destination"]) + spec[to:]
}

// member returns where the value of a member is in the canonical text of an object; false if it
// has none of that name, or is not understood.
func member(object, name string) (from, to int, ok bool) {
	rest, found := strings.CutPrefix(object, "{")
	for found {
		key, ok := span(rest)
		if !ok || key == len(rest) || rest[key] != ':' {
			return 0, 0, false
		}
		value, ok := span(rest[key+1:])
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

// span returns how long the value is with which a text begins; false if it has no end.
func span(text string) (n int, ok bool) {
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
		case depth == 0 && (c == ',' || c == ':' || c == '}' || c == ']'):
			return i, i > 0
		case c == '}' || c == ']':
			depth--
		}
	}
	return len(text), len(text) > 0 && depth == 0 && !quoted
}
