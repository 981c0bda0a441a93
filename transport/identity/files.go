package identity

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"
)

// Files names the PEM files that one side of a connection with mutual TLS needs.
type Files struct {
	CA   string // certificates that the peer's must be signed by
	Cert string // own certificate, with the chain that leads to its CA
	Key  string // its private key
}

// Server returns the configuration of a server that serves only peers with a certificate
// of the CA. now is what expiry is judged by.
func (f Files) Server(now time.Time) (*tls.Config, error) {
	cert, pool, err := f.load(now)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
	}, nil
}

// Client returns the configuration of a client that trusts only servers with a
// certificate of the CA. now is what expiry is judged by.
func (f Files) Client(now time.Time) (*tls.Config, error) {
	cert, pool, err := f.load(now)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		RootCAs:      pool,
	}, nil
}

func (f Files) load(now time.Time) (tls.Certificate, *x509.CertPool, error) {
	fail := func(err error) (tls.Certificate, *x509.CertPool, error) {
		return tls.Certificate{}, nil, fmt.Errorf("identity: %w", err)
	}
	pool, err := readPool(f.CA)
	if err != nil {
		return fail(err)
	}
	certPEM, err := os.ReadFile(f.Cert)
	if err != nil {
		return fail(fmt.Errorf("read certificate: %w", err))
	}
	keyPEM, err := os.ReadFile(f.Key)
	if err != nil {
		return fail(fmt.Errorf("read key: %w", err))
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return fail(fmt.Errorf("key %s with certificate %s: %w", f.Key, f.Cert, err))
	}
	if err := f.check(cert, pool, now); err != nil {
		return fail(err)
	}
	return cert, pool, nil
}

// check finds out now what would otherwise be a failed handshake on the other side: a
// certificate that has expired or that is of another CA.
func (f Files) check(cert tls.Certificate, pool *x509.CertPool, now time.Time) error {
	leaf := cert.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("certificate %s of %q expired at %s", f.Cert, leaf.Subject, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("certificate %s of %q is not valid before %s", f.Cert, leaf.Subject, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("chain in %s: %w", f.Cert, err)
		}
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return fmt.Errorf("certificate %s of %q does not belong to the CA in %s: %w", f.Cert, leaf.Subject, f.CA, err)
	}
	return nil
}

func readPool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read CA: %s holds no PEM certificate", file)
	}
	return pool, nil
}
