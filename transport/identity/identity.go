// Package identity says who the peer of a connection is, and keeps what this side proves its
// own name with: Credentials, which a Renewal replaces while connections are up.
//
// An agent is known by the common name of its client certificate, which its hub's CA
// has signed. Every adapter asks here, so that one name means one agent on all of them.
package identity

import (
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxName is the length of the longest DNS-1123 label.
const maxName = 63

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// CheckName returns an error unless name can be an agent's: a DNS-1123 label that is not
// one of the namespaces that a cluster or Argo CD uses itself.
func CheckName(name string) error {
	switch {
	case len(name) > maxName || !label.MatchString(name):
		return fmt.Errorf("identity: agent name %.80q is not a DNS-1123 label", name)
	case name == "default", name == "argocd", strings.HasPrefix(name, "kube-"):
		return fmt.Errorf("identity: agent name %q is reserved", name)
	}
	return nil
}

// SubjectName returns the agent that has opened a connection: the common name of its
// verified certificate. A connection whose certificate was not verified has no name.
func SubjectName(s tls.ConnectionState) (string, error) {
	if len(s.VerifiedChains) == 0 || len(s.VerifiedChains[0]) == 0 {
		return "", errors.New("identity: the peer has shown no verified certificate")
	}
	name := s.VerifiedChains[0][0].Subject.CommonName
	if err := CheckName(name); err != nil {
		return "", err
	}
	return name, nil
}
