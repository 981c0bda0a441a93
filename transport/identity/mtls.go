package identity

import (
	"crypto/x509"
	"fmt"
	"regexp"
	"slices"
)

// bySubject is the Method by which the subject of a certificate has the agent's name in it.
func bySubject(pattern string, _ Terms) (Method, error) {
	return byText(pattern, "subject", func(c *x509.Certificate) []string { return []string{c.Subject.String()} })
}

// byURI is the Method by which a URI that a certificate names has the agent's name in it.
func byURI(pattern string, _ Terms) (Method, error) { return byText(pattern, "URI", uris) }

func uris(c *x509.Certificate) (all []string) {
	for _, u := range c.URIs {
		all = append(all, u.String())
	}
	return all
}

// byText is a Method by which one of the texts of a certificate has the agent's name in it.
func byText(pattern, what string, texts func(*x509.Certificate) []string) (Method, error) {
	name, err := matched(pattern, what+" of the certificate")
	if err != nil {
		return Method{}, err
	}
	return Method{Source: asKept, Prove: certified(func(c *x509.Certificate) (string, error) { return name(texts(c)) })}, nil
}

// matched returns what finds an agent's name: one of the texts, each of which is a what, matches
// a regular expression as a whole, and its group 1 is the name. If more than one does they must
// agree.
func matched(pattern, what string) (func(texts []string) (string, error), error) {
	re, err := regexp.Compile(`^(?:` + pattern + `)$`)
	switch {
	case err != nil:
		return nil, fmt.Errorf("identity: %w", err)
	case re.NumSubexp() == 0:
		return nil, fmt.Errorf("identity: %q has no group, which is to be the agent's name", pattern)
	}
	return func(texts []string) (string, error) {
		var names []string
		for _, text := range texts {
			if m := re.FindStringSubmatch(text); m != nil {
				names = append(names, m[1])
			}
		}
		names = slices.Compact(slices.Sorted(slices.Values(names)))
		switch len(names) {
		case 0:
			return "", fmt.Errorf("identity: no %s matches --auth: it has %q", what, texts)
		case 1:
			return names[0], CheckName(names[0])
		}
		return "", fmt.Errorf("identity: the peer proves more than one name by --auth: %q", names)
	}, nil
}
