package project

import (
	"fmt"
	"strings"

	"github.com/dlclark/regexp2"
	"github.com/gobwas/glob"
)

// Match reports whether a text matches a glob as Argo CD reads one: `*` stands for any text,
// dots and slashes included, `?` for a character, `[a-c]`, `[!a]` and `{a,b}` for what they
// do in a shell. A glob that cannot be read matches nothing, and neither does one that is
// costly: reading alone may take minutes, and an agent may have written it.
func Match(pattern, text string) bool {
	if pattern == "*" {
		return true
	}
	if costly(pattern) {
		return false
	}
	g, err := glob.Compile(pattern)
	return err == nil && g.Match(text)
}

// costly reports whether a glob is longer than an address and a name are, or has so many of
// what takes the library ever more time that nobody means it: a thousand `?` take minutes.
func costly(pattern string) bool {
	return len(pattern) > 2048 || strings.Count(pattern, "?") > 16 || strings.Count(pattern, "{") > 64
}

// MatchNamespace reports whether a namespace matches any of patterns as Argo CD reads
// sourceNamespaces and --application-namespaces: each is a glob, see Match, or between
// slashes a regular expression of .NET, which is not anchored.
//
// Such an expression can take for ever. It does so in Argo CD too, so whoever may write one
// has that power already.
func MatchNamespace(patterns []string, namespace string) bool {
	for _, p := range patterns {
		if r, ok := betweenSlashes(p); ok && matchRegexp(r, namespace) {
			return true
		}
		if Match(p, namespace) {
			return true
		}
	}
	return false
}

// CheckNamespace says what is wrong with a pattern of MatchNamespace that can match nothing.
func CheckNamespace(pattern string) error {
	if r, ok := betweenSlashes(pattern); ok {
		if _, err := regexp2.Compile(r, regexp2.None); err != nil {
			return fmt.Errorf("%q is no regular expression: %w", pattern, err)
		}
		return nil
	}
	if costly(pattern) {
		return fmt.Errorf("%.40q is too long a glob, or has too many ? or {", pattern)
	}
	if _, err := glob.Compile(pattern); err != nil {
		return fmt.Errorf("%q is no glob: %w", pattern, err)
	}
	return nil
}

// betweenSlashes returns the regular expression that a pattern is; false if it is a glob.
func betweenSlashes(pattern string) (string, bool) {
	if len(pattern) < 2 || !strings.HasPrefix(pattern, "/") || !strings.HasSuffix(pattern, "/") {
		return "", false
	}
	return pattern[1 : len(pattern)-1], true
}

func matchRegexp(pattern, text string) bool {
	r, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return false
	}
	ok, err := r.MatchString(text)
	return err == nil && ok
}

// negatable is Match for the fields of a destination, where `!` before a glob turns it round.
func negatable(pattern, text string) bool {
	if denies(pattern) {
		return !Match(pattern[1:], text)
	}
	return Match(pattern, text)
}

func denies(pattern string) bool { return strings.HasPrefix(pattern, "!") }

// anything reports whether a glob is made of `*` alone.
func anything(pattern string) bool { return pattern != "" && strings.Trim(pattern, "*") == "" }

// opposite returns the pattern that matches each name of a namespace that another does not;
// false if there is none.
func opposite(pattern string) (string, bool) {
	rest, denied := strings.CutPrefix(pattern, "!")
	if !denied {
		return "!" + pattern, !anything(pattern)
	}
	return rest, !denies(rest) // no name has a "!"
}

// at reports whether a pattern for servers matches the agent's. The server of an agent that
// has no cluster secret yet is known by the agent's name in it.
func (a Agent) at(pattern string) bool {
	if a.Server != "" {
		return negatable(pattern, a.Server)
	}
	glob := strings.TrimPrefix(pattern, "!")
	name, named := AgentAt(glob)
	return (anything(glob) || named && Match(name, a.Name)) != denies(pattern)
}

// AgentAt returns the name of the agent that the address of a cluster names, and whether it
// names one: those that this project registers are https://...?agentName=name.
func AgentAt(server string) (name string, ok bool) {
	_, name, ok = strings.Cut(server, "agentName=")
	return name, ok
}
