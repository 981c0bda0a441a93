package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A Method returns the name of the agent that has opened a connection, as the connection
// proves it.
type Method func(tls.ConnectionState) (agent string, err error)

// methods are those that an agent's name can be proved by, by what they are called. Each makes
// a Method of what stands behind that.
var methods = map[string]func(rest string) (Method, error){
	"mtls:subject": func(rest string) (Method, error) {
		return matched(rest, "subject", func(c *x509.Certificate) []string { return []string{c.Subject.String()} })
	},
	"mtls:uri": func(rest string) (Method, error) {
		return matched(rest, "URI", func(c *x509.Certificate) (all []string) {
			for _, u := range c.URIs {
				all = append(all, u.String())
			}
			return all
		})
	},
}

// ParseMethod reads a Method as --auth has it, such as "mtls:uri:spiffe://example[.]com/agent/(.*)":
// its name, a colon, and what it needs. "" is SubjectName.
func ParseMethod(text string) (Method, error) {
	if text == "" {
		return SubjectName, nil
	}
	for name, parse := range methods {
		if rest, ok := strings.CutPrefix(text, name+":"); ok {
			return parse(rest)
		}
	}
	return nil, fmt.Errorf("identity: %q begins with no method that is known: %s", text, strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
}

// matched returns a Method for which one of the texts of a verified certificate matches a
// regular expression as a whole, and its group 1 is the agent's name. If more than one does
// they must agree.
func matched(pattern, what string, texts func(*x509.Certificate) []string) (Method, error) {
	re, err := regexp.Compile(`^(?:` + pattern + `)$`)
	switch {
	case err != nil:
		return nil, fmt.Errorf("identity: %w", err)
	case re.NumSubexp() == 0:
		return nil, fmt.Errorf("identity: %q has no group, which is to be the agent's name", pattern)
	}
	return func(s tls.ConnectionState) (string, error) {
		if len(s.VerifiedChains) == 0 || len(s.VerifiedChains[0]) == 0 {
			return "", errors.New("identity: the peer has shown no verified certificate")
		}
		found := texts(s.VerifiedChains[0][0])
		var names []string
		for _, text := range found {
			if m := re.FindStringSubmatch(text); m != nil {
				names = append(names, m[1])
			}
		}
		names = slices.Compact(slices.Sorted(slices.Values(names)))
		switch len(names) {
		case 0:
			return "", fmt.Errorf("identity: no %s of the certificate matches --auth: it has %q", what, found)
		case 1:
			return names[0], CheckName(names[0])
		}
		return "", fmt.Errorf("identity: the certificate proves more than one name by --auth: %q", names)
	}, nil
}
