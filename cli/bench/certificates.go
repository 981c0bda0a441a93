package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

// issue makes a CA and certificates for the principal and the agent, and returns the
// principal's.
func issue(dir string) (identity.Files, error) {
	o := pki.Options{Now: time.Now(), Lifetime: 24 * time.Hour}
	ca, err := pki.NewCA("bench CA", o)
	if err != nil {
		return identity.Files{}, err
	}
	server, err := ca.IssueServer("bench principal", []string{"127.0.0.1"}, o)
	if err != nil {
		return identity.Files{}, err
	}
	client, err := ca.IssueAgent(agentName, o)
	if err != nil {
		return identity.Files{}, err
	}
	for name, p := range map[string]pki.Pair{"ca": ca.Pair(), "principal": server, agentName: client} {
		f := files(dir, name)
		if err := errors.Join(os.WriteFile(f.Cert, p.Cert, 0o600), os.WriteFile(f.Key, p.Key, 0o600)); err != nil {
			return identity.Files{}, fmt.Errorf("make certificates: %w", err)
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
