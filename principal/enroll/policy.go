package enroll

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// A Policy says which labels agents may give themselves. Each of its patterns is key or
// key=value, as path.Match has them: a star stands for anything but a slash. A pattern without a
// value allows any. The empty Policy allows none, and none allows those that say what an agent
// is.
type Policy []string

// ParsePolicy reads patterns with commas between them.
func ParsePolicy(text string) (Policy, error) {
	var p Policy
	for pattern := range strings.SplitSeq(text, ",") {
		if pattern = strings.TrimSpace(pattern); pattern == "" {
			continue
		}
		key, _, _ := strings.Cut(pattern, "=")
		if _, err := path.Match(pattern, ""); err != nil || key == "" {
			return nil, fmt.Errorf("enroll: %.80q is no pattern of labels", pattern)
		}
		p = append(p, pattern)
	}
	return p, nil
}

// Split returns those of labels that are allowed, and the keys of the others, sorted.
func (p Policy) Split(labels map[string]string) (allowed map[string]string, dropped []string) {
	allowed = map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if p.allows(key, labels[key]) {
			allowed[key] = labels[key]
		} else {
			dropped = append(dropped, key)
		}
	}
	return allowed, dropped
}

func (p Policy) allows(key, value string) bool {
	domain, _, _ := strings.Cut(key, "/")
	for _, own := range []string{"argoproj.io", "argoproj-labs.io"} {
		if domain == own || strings.HasSuffix(domain, "."+own) {
			return false
		}
	}
	return slices.ContainsFunc(p, func(pattern string) bool {
		keys, values, valued := strings.Cut(pattern, "=")
		return matches(keys, key) && (!valued || matches(values, value))
	})
}

// matches is path.Match with a pattern that was parsed.
func matches(pattern, text string) bool {
	ok, err := path.Match(pattern, text)
	return ok && err == nil
}
