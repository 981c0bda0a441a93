// Package tlstest is what tests of transports over TLS and TCP share: certificates, lines that
// can be cut, and the stories of who is let in, which every such transport has to pass.
package tlstest

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

// An Authority is a CA of one test. What it issues is for the loopback interface, and holds
// for an hour.
type Authority struct{ *pki.CA }

// NewAuthority returns another CA, which is valid by clocks that are a day late or early.
func NewAuthority(t testing.TB) Authority {
	const day = 24 * time.Hour
	ca, err := pki.NewCA("test", pki.Options{Now: time.Now().Add(-day), Lifetime: 2 * day})
	require.NoError(t, err)
	return Authority{ca}
}

// Options are those of a certificate that holds for an hour.
func Options() pki.Options { return pki.Options{Now: time.Now(), Lifetime: time.Hour} }

// ServerPair issues the certificate of a principal.
func (a Authority) ServerPair(t testing.TB) pki.Pair {
	pair, err := a.IssueServer("principal", []string{"127.0.0.1"}, Options())
	require.NoError(t, err)
	return pair
}

// AgentPair issues the certificate of an agent.
func (a Authority) AgentPair(t testing.TB, agent string) pki.Pair {
	pair, err := a.IssueAgent(agent, Options())
	require.NoError(t, err)
	return pair
}

// Server returns Credentials of a principal that trusts this CA.
func (a Authority) Server(t testing.TB) *identity.Credentials {
	return Credentials(t, a.ServerPair(t), a)
}

// Client returns Credentials of an agent that trusts this CA.
func (a Authority) Client(t testing.TB, agent string) *identity.Credentials {
	return Credentials(t, a.AgentPair(t, agent), a)
}

// certificate returns that of a pair.
func certificate(t testing.TB, pair pki.Pair) *x509.Certificate {
	block, _ := pem.Decode(pair.Cert)
	c, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return c
}

// Credentials are those of whoever has a pair, and trusts these.
func Credentials(t testing.TB, pair pki.Pair, trusted ...Authority) *identity.Credentials {
	c, err := identity.NewCredentials(Bundle(pair, trusted...), time.Now())
	require.NoError(t, err)
	return c
}

// Bundle is what Credentials are made of.
func Bundle(pair pki.Pair, trusted ...Authority) identity.Bundle {
	b := identity.Bundle{CA: identity.Text{Where: "ca"}, Cert: identity.Text{Where: "cert", PEM: pair.Cert}, Key: identity.Text{Where: "key", PEM: pair.Key}}
	for _, ca := range trusted {
		b.CA.PEM = append(b.CA.PEM, ca.Pair().Cert...)
	}
	return b
}
