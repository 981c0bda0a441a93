package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

// issue makes a CA, and a certificate for the principal and each agent, and returns the
// principal's.
func issue(dir string, r roster) (identity.Files, error) {
	o := pki.Options{Now: time.Now(), Lifetime: time.Hour}
	ca, err := pki.NewCA("demo CA", o)
	if err != nil {
		return identity.Files{}, err
	}
	pair, err := ca.IssueServer("demo principal", []string{"127.0.0.1"}, o)
	pairs := map[string]pki.Pair{"ca": ca.Pair(), "principal": pair}
	for _, a := range r {
		if err == nil {
			pairs[a.Name], err = ca.IssueAgent(a.Name, o)
		}
	}
	if err != nil {
		return identity.Files{}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return identity.Files{}, fmt.Errorf("demo: make certificates: %w", err)
	}
	for name, p := range pairs {
		f := files(dir, name)
		if err := errors.Join(os.WriteFile(f.Cert, p.Cert, 0o600), os.WriteFile(f.Key, p.Key, 0o600)); err != nil {
			return identity.Files{}, fmt.Errorf("demo: make certificates: %w", err)
		}
	}
	return files(dir, "principal"), nil
}

func files(dir, name string) identity.Files {
	return identity.Files{
		CA:   filepath.Join(dir, "ca.crt"),
		Cert: filepath.Join(dir, name+".crt"),
		Key:  filepath.Join(dir, name+".key"),
	}
}
