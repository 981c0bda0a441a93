// Package throwaway makes certificates that live no longer than one command: of a principal
// and its agents who find each other on the loopback interface of one machine.
package throwaway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

// Principal is the name of the principal's certificate, see Files.
const Principal = "principal"

// lifetime is longer than any command that asks for certificates.
const lifetime = 24 * time.Hour

// Issue makes a CA, and a certificate for the principal and for each agent, in a folder,
// which is made if need be.
func Issue(dir string, agents ...string) error {
	fail := func(err error) error { return fmt.Errorf("make certificates: %w", err) }
	o := pki.Options{Now: time.Now(), Lifetime: lifetime}
	ca, err := pki.NewCA("throwaway CA", o)
	if err != nil {
		return fail(err)
	}
	pair, err := ca.IssueServer(Principal, []string{"127.0.0.1"}, o)
	if err != nil {
		return fail(err)
	}
	pairs := map[string]pki.Pair{"ca": ca.Pair(), Principal: pair}
	for _, name := range agents {
		if pairs[name], err = ca.IssueAgent(name, o); err != nil {
			return fail(err)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	for name, p := range pairs {
		f := Files(dir, name)
		if err := errors.Join(os.WriteFile(f.Cert, p.Cert, 0o600), os.WriteFile(f.Key, p.Key, 0o600)); err != nil {
			return fail(err)
		}
	}
	return nil
}

// Files returns where Issue has put what the principal or an agent needs.
func Files(dir, name string) identity.Files {
	return identity.Files{
		CA:   filepath.Join(dir, "ca.crt"),
		Cert: filepath.Join(dir, name+".crt"),
		Key:  filepath.Join(dir, name+".key"),
	}
}
