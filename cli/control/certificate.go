package control

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// A certificate is what there is to know of one.
type certificate struct {
	Where       string    `json:"where"`
	Subject     string    `json:"subject"`
	URIs        []string  `json:"uris,omitempty"`
	Issuer      string    `json:"issuer"`
	Key         string    `json:"key"`         // its algorithm
	Fingerprint string    `json:"fingerprint"` // as the blocklist has it
	NotBefore   time.Time `json:"notBefore"`
	Expires     time.Time `json:"expires"`
	State       string    `json:"state"` // now: valid, expired or not yet valid
}

// firstCertificate returns the first certificate in a PEM text.
func firstCertificate(where string, text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("control: %s holds no PEM certificate", where)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("control: certificate in %s: %w", where, err)
	}
	return cert, nil
}

func describe(where string, cert *x509.Certificate, now time.Time) certificate {
	d := certificate{
		Where: where, Subject: cert.Subject.String(), Issuer: cert.Issuer.String(), Key: keyOf(cert),
		Fingerprint: identity.Fingerprint(cert), NotBefore: cert.NotBefore.UTC(), Expires: cert.NotAfter.UTC(), State: "valid",
	}
	for _, u := range cert.URIs {
		d.URIs = append(d.URIs, u.String())
	}
	switch {
	case now.After(cert.NotAfter):
		d.State = "expired"
	case now.Before(cert.NotBefore):
		d.State = "not yet valid"
	}
	return d
}

// keyOf names the algorithm of a certificate's key.
func keyOf(cert *x509.Certificate) string {
	switch k := cert.PublicKey.(type) {
	case *ecdsa.PublicKey:
		return "ECDSA " + k.Curve.Params().Name
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", k.N.BitLen())
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return cert.PublicKeyAlgorithm.String()
}

// belongs returns an error if a certificate is that of another agent, as far as it tells.
func belongs(k kept, cert *x509.Certificate, agent string) error {
	if name := cert.Subject.CommonName; len(cert.URIs) == 0 && name != agent {
		return fmt.Errorf("control: the certificate in %s is of %q, not of agent %s: name the cluster or folder that has the agent's (--agent-context, --dir)", k.Where, name, agent)
	}
	return nil
}

// errElsewhere says that it was not said where an agent's certificate is.
var errElsewhere = errors.New("it is on the agent's cluster: name that by --agent-context, or the folder that has it by --dir")

// certificateOf returns what an agent was given, and the certificate in it.
func certificateOf(c *cli.Context, agent string) (kept, *x509.Certificate, error) {
	if c.String("dir") == "" && c.String("agent-context") == "" && !c.IsSet("agent-namespace") {
		return kept{}, nil, errElsewhere
	}
	v, err := openVault(c)
	if err != nil {
		return kept{}, nil, err
	}
	k, err := v.find(c, agent)
	if err != nil {
		return kept{}, nil, err
	}
	cert, err := firstCertificate(k.Where, k.Cert)
	if err != nil {
		return kept{}, nil, err
	}
	return k, cert, belongs(k, cert, agent)
}

// together returns the flags of several groups, each flag once.
func together(groups ...[]cli.Flag) (all []cli.Flag) {
	seen := map[string]bool{}
	for _, group := range groups {
		for _, f := range group {
			if name := f.Names()[0]; !seen[name] {
				seen[name] = true
				all = append(all, f)
			}
		}
	}
	return all
}
