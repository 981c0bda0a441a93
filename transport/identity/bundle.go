package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

// A Text is of PEM blocks. Where says where it is from, as its owner knows it: in a file, or
// in a Secret.
type Text struct {
	Where string
	PEM   []byte
}

// A Bundle is what one side proves its name with, and knows the names of others by.
type Bundle struct {
	CA   Text // certificates that a peer's must be signed by
	Cert Text // own certificate, with the chain that leads to its CA; none where there is a Login
	Key  Text // its private key
	// Login is what an agent says where it has no certificate.
	Login Login
	// Users are, at a principal, those who say a password and show no certificate. nil is that
	// everybody has to show one.
	Users Users
	// Peer is the URI that a principal's certificate has to have. "" is that it has to be for the
	// host that was dialled.
	Peer string
	// Plain is that there is no TLS, and none of the above: a proxy beside this side does it.
	Plain bool
}

// A Source reads a Bundle as it is now.
type Source func(context.Context) (Bundle, error)

// Kept reads what is kept of a Bundle in files or Secrets, as it is now.
type Kept struct {
	CA   func(context.Context) (Text, error)
	Pair func(context.Context) (cert, key Text, err error)
}

// Read is the Source of all of it.
func (k Kept) Read(ctx context.Context) (b Bundle, err error) {
	if b.Cert, b.Key, err = k.Pair(ctx); err != nil {
		return Bundle{}, err
	}
	if b.CA, err = k.CA(ctx); err != nil {
		return Bundle{}, err
	}
	return b, nil
}

func (b Bundle) equal(c Bundle) bool {
	return b.sameTexts(c) && b.Login == c.Login && b.Plain == c.Plain && b.Peer == c.Peer && maps.Equal(b.Users, c.Users)
}

// sameTexts reports whether certificates and key are the same.
func (b Bundle) sameTexts(c Bundle) bool {
	return bytes.Equal(b.CA.PEM, c.CA.PEM) && bytes.Equal(b.Cert.PEM, c.Cert.PEM) && bytes.Equal(b.Key.PEM, c.Key.PEM)
}

// what is what the name of this side is in, and whose says where that is.
func (b Bundle) what() string {
	if b.Login != (Login{}) {
		return "login"
	}
	return "certificate"
}

func (b Bundle) whose() string { return strings.TrimSpace(b.what() + " " + b.Cert.Where) }

// read returns what the Bundle says. It finds out now what would otherwise be a failed
// handshake on the other side: a certificate that has expired, or that is of another CA.
func (b Bundle) read(now time.Time) (*tls.Certificate, *x509.CertPool, error) {
	fail := func(err error) (*tls.Certificate, *x509.CertPool, error) {
		return nil, nil, fmt.Errorf("identity: %w", err)
	}
	if b.Plain {
		return nil, nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b.CA.PEM) {
		return fail(fmt.Errorf("read CA: %s holds no PEM certificate", b.CA.Where))
	}
	if b.Login != (Login{}) {
		return nil, pool, nil
	}
	cert, err := tls.X509KeyPair(b.Cert.PEM, b.Key.PEM)
	if err != nil {
		return fail(fmt.Errorf("key %s with certificate %s: %w", b.Key.Where, b.Cert.Where, err))
	}
	leaf := cert.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return fail(fmt.Errorf("certificate %s of %q expired at %s, and by this clock it is %s; put another in its place: argocd-agentctl pki issue --upsert makes one", b.Cert.Where, leaf.Subject, stamp(leaf.NotAfter), stamp(now)))
	case now.Before(leaf.NotBefore):
		return fail(fmt.Errorf("certificate %s of %q is not valid before %s, and by this clock it is %s; one of the clocks is wrong, here or where it was issued", b.Cert.Where, leaf.Subject, stamp(leaf.NotBefore), stamp(now)))
	}
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fail(fmt.Errorf("chain in %s: %w", b.Cert.Where, err))
		}
		between.AddCert(c)
	}
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fail(fmt.Errorf("%q, by which certificate %s is signed, is valid from %s until %s, and by this clock it is %s; put another CA in its place, or set the clock", invalid.Cert.Subject, b.Cert.Where, stamp(invalid.Cert.NotBefore), stamp(invalid.Cert.NotAfter), stamp(now)))
	case err != nil:
		return fail(fmt.Errorf("certificate %s of %q does not belong to the CA in %s: %w", b.Cert.Where, leaf.Subject, b.CA.Where, err))
	}
	return &cert, pool, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
