package pki_test

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

func parse(t *testing.T, p pki.Pair) tls.Certificate {
	c, err := tls.X509KeyPair(p.Cert, p.Key)
	require.NoError(t, err)
	return c
}

func TestCertificatesAreGoodForTheirPurposeOnly(t *testing.T) {
	now := time.Now()
	for _, kind := range []pki.KeyType{pki.ECDSA, pki.Ed25519, pki.RSA} {
		o := pki.Options{Now: now, Lifetime: time.Hour, KeyType: kind}
		ca, err := pki.NewCA("CA", o)
		require.NoError(t, err)
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(ca.Pair().Cert))

		server, err := ca.IssueServer("principal", []string{"hub.example", "127.0.0.1", "::1"}, o)
		require.NoError(t, err)
		agent, err := ca.IssueAgent("north", o)
		require.NoError(t, err)

		verify := func(p pki.Pair, host string, use x509.ExtKeyUsage) error {
			_, err := parse(t, p).Leaf.Verify(x509.VerifyOptions{
				Roots: roots, DNSName: host, KeyUsages: []x509.ExtKeyUsage{use}, CurrentTime: now,
			})
			return err
		}
		for _, host := range []string{"hub.example", "127.0.0.1", "::1"} {
			require.NoError(t, verify(server, host, x509.ExtKeyUsageServerAuth))
		}
		require.Error(t, verify(server, "other.example", x509.ExtKeyUsageServerAuth))
		require.Error(t, verify(server, "", x509.ExtKeyUsageClientAuth))
		require.NoError(t, verify(agent, "", x509.ExtKeyUsageClientAuth))
		require.Error(t, verify(agent, "", x509.ExtKeyUsageServerAuth))
		require.Equal(t, "north", parse(t, agent).Leaf.Subject.CommonName)
	}
}

func TestKeyTypes(t *testing.T) {
	o := pki.Options{Now: time.Now(), Lifetime: time.Hour}
	ca, err := pki.NewCA("CA", o)
	require.NoError(t, err)
	require.IsType(t, &ecdsa.PrivateKey{}, parse(t, ca.Pair()).PrivateKey)

	o.KeyType = pki.RSA
	p, err := ca.IssueAgent("north", o)
	require.NoError(t, err)
	require.IsType(t, &rsa.PrivateKey{}, parse(t, p).PrivateKey)

	o.KeyType = "dsa"
	_, err = ca.IssueAgent("north", o)
	require.ErrorContains(t, err, `unknown key type "dsa"`)
}

func TestNothingOutlivesItsCA(t *testing.T) {
	now := time.Now()
	ca, err := pki.NewCA("CA", pki.Options{Now: now, Lifetime: time.Hour})
	require.NoError(t, err)
	p, err := ca.IssueAgent("north", pki.Options{Now: now, Lifetime: 100 * time.Hour})
	require.NoError(t, err)
	require.Equal(t, parse(t, ca.Pair()).Leaf.NotAfter, parse(t, p).Leaf.NotAfter)
}

func TestACAIsLoadedAgain(t *testing.T) {
	o := pki.Options{Now: time.Now(), Lifetime: time.Hour}
	ca, err := pki.NewCA("CA", o)
	require.NoError(t, err)
	again, err := pki.LoadCA(ca.Pair())
	require.NoError(t, err)
	p, err := again.IssueAgent("north", o)
	require.NoError(t, err)
	require.NoError(t, parse(t, p).Leaf.CheckSignatureFrom(parse(t, ca.Pair()).Leaf))

	_, err = pki.LoadCA(p)
	require.ErrorContains(t, err, "not the certificate of a CA")
	_, err = pki.LoadCA(pki.Pair{Cert: ca.Pair().Cert, Key: p.Key})
	require.ErrorContains(t, err, "does not match")
}

func TestBadRequests(t *testing.T) {
	o := pki.Options{Now: time.Now(), Lifetime: time.Hour}
	ca, err := pki.NewCA("CA", o)
	require.NoError(t, err)
	_, err = ca.IssueAgent("kube-system", o)
	require.ErrorContains(t, err, "reserved")
	_, err = ca.IssueServer("principal", nil, o)
	require.ErrorContains(t, err, "no host")
	for _, bad := range []string{"", "a b", "a\nb", "straße.example.com", "https://hub", "hub:8443", "a..b", "-a", "hub.*"} {
		_, err = ca.IssueServer("principal", []string{bad}, o)
		require.ErrorContains(t, err, "neither the name of a host nor an address", bad)
	}
	for _, good := range []string{"hub", "*.example.com", "xn--strae-oqa.example.com", "192.0.2.7", "2001:db8::1", "a_b.c"} {
		require.NoError(t, pki.CheckHost(good))
	}
	for _, bad := range []pki.Options{{}, {Now: o.Now}, {Lifetime: time.Hour}} {
		_, err = pki.NewCA("CA", bad)
		require.ErrorContains(t, err, "positive lifetime")
		_, err = ca.IssueAgent("north", bad)
		require.ErrorContains(t, err, "positive lifetime")
	}
}

// The servers of a cluster and the principal that comes to it have certificates which cannot be taken
// for an agent's, and are renewed for the key that they had.
func TestPeersAndClients(t *testing.T) {
	o := pki.Options{Now: time.Now(), Lifetime: time.Hour}
	ca, err := pki.NewCA("test CA", o)
	require.NoError(t, err)
	for _, name := range []string{"", "edge-1"} {
		_, err = ca.IssuePeer(name, []string{"127.0.0.1"}, o)
		require.Error(t, err)
		_, err = ca.IssueClient(name, o)
		require.Error(t, err)
	}
	peer, err := ca.IssuePeer("some server", []string{"127.0.0.1"}, o)
	require.NoError(t, err)
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, parse(t, peer).Leaf.ExtKeyUsage)
	client, err := ca.IssueClient("some client", o)
	require.NoError(t, err)
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, parse(t, client).Leaf.ExtKeyUsage)

	o.Key = peer.Key
	again, err := ca.IssuePeer("some server", []string{"127.0.0.1"}, o)
	require.NoError(t, err)
	require.Equal(t, peer.Key, again.Key)
	require.NotEqual(t, peer.Cert, again.Cert)
	o.Key = []byte("no key")
	_, err = ca.IssueClient("some client", o)
	require.ErrorContains(t, err, "it is no PEM")
}
