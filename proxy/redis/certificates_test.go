package redis_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

// certificates returns what a server at 127.0.0.1 has, and what trusts it.
func certificates(t *testing.T) (server, trust *tls.Config) {
	o := pki.Options{Now: time.Now(), Lifetime: time.Hour}
	ca, err := pki.NewCA("Redis", o)
	require.NoError(t, err)
	issued, err := ca.IssueServer("redis", []string{"127.0.0.1"}, o)
	require.NoError(t, err)
	cert, err := tls.X509KeyPair(issued.Cert, issued.Key)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca.Pair().Cert))
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
