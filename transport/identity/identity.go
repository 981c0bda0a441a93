// Package identity says who the peer of a connection is, and keeps what this side proves its
// own name with: Credentials, which a Renewal replaces while connections are up.
//
// A principal knows an agent by what a Method takes for proof: as a rule the common name of its
// client certificate, which its hub's CA has signed. Every adapter asks here, so that one name
// means one agent on all of them.
package identity

import (
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
