package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"
)

// A Shown is what a connection has shown of whoever has opened it.
type Shown struct {
	From  net.Addr             // where it comes from
	TLS   *tls.ConnectionState // nil if it is not one of TLS
	Login Login                // zero if none was given
	// Header returns the values of a header; nil where there are no headers.
	Header func(name string) []string
}

// A Prover finds out who has opened a connection that is met with Credentials. It may be used
// by any number of connections at once, and may take as long as it is to check a password.
type Prover func(*Credentials, Shown) (Proof, error)

// A Proof is who has opened a connection, and what it was found out by. The zero Proof proves
// nothing. It holds nothing that is secret.
type Proof struct {
	Agent string
	// Certificates are those that were shown, the agent's own the first; it may have shown none.
	Certificates []*x509.Certificate

	stands func(*credential, time.Time) error // returns why it is none any more
}

// errUnproved is said of a Proof that was never one.
var errUnproved = errors.New("identity: nothing proves who the peer is")

// expired reports whether one of the certificates is by now.
func (p Proof) expired(now time.Time) bool {
	for _, c := range p.Certificates {
		if now.After(c.NotAfter) {
			return true
		}
	}
	return false
}

// certified returns a Prover by which an agent has the name that its certificate has, which the
// CA must have signed.
func certified(name func(*x509.Certificate) (string, error)) Prover {
	return func(_ *Credentials, s Shown) (Proof, error) {
		if s.TLS == nil || len(s.TLS.VerifiedChains) == 0 || len(s.TLS.VerifiedChains[0]) == 0 {
			return Proof{}, errors.New("identity: the peer has shown no verified certificate")
		}
		agent, err := name(s.TLS.VerifiedChains[0][0])
		if err != nil {
			return Proof{}, err
		}
		shown := s.TLS.PeerCertificates
		return Proof{Agent: agent, Certificates: shown, stands: func(c *credential, now time.Time) error {
			return c.verify(shown, x509.VerifyOptions{CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		}}, CheckName(agent)
	}
}

// SubjectName is the Prover by which an agent goes by the common name of its certificate.
func SubjectName(c *Credentials, s Shown) (Proof, error) {
	return certified(func(own *x509.Certificate) (string, error) { return own.Subject.CommonName, nil })(c, s)
}
