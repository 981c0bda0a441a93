package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Credentials are what one side proves its name with, and knows its peers by, from now on.
// They can be replaced at any time: connections that are made then are made with the new
// ones, and whoever has made one by the old is told by Changed. They may be used by any
// number of goroutines.
type Credentials struct {
	mu      sync.Mutex
	now     *credential
	blocked Blocklist
	changed chan struct{} // closed when any of this is replaced
}

// A credential is one state of Credentials.
type credential struct {
	bundle Bundle
	cert   tls.Certificate
	pool   *x509.CertPool
	server *tls.Config // one, so that sessions can be resumed until it is replaced
	open   *tls.Config // the same for EnvelopeServer
}

// NewCredentials returns Credentials. It fails if a peer would not take them. now is what
// expiry is judged by.
func NewCredentials(b Bundle, now time.Time) (*Credentials, error) {
	cur, err := newCredential(b, now)
	if err != nil {
		return nil, err
	}
	return &Credentials{now: cur, changed: make(chan struct{})}, nil
}

func newCredential(b Bundle, now time.Time) (*credential, error) {
	cert, pool, err := b.read(now)
	if err != nil {
		return nil, err
	}
	return &credential{
		bundle: b, cert: cert, pool: pool,
		server: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{cert},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    pool,
		},
		open: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: http1},
	}, nil
}

func (c *Credentials) get() *credential {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Replace has b used from now on, and reports whether it is another than before. After an
// error all stays as it is.
func (c *Credentials) Replace(b Bundle, now time.Time) (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.equal(c.now.bundle) {
		return false, nil
	}
	next, err := newCredential(b, now)
	if err != nil {
		return false, err
	}
	if was, is := c.now.cert.Leaf.Subject.CommonName, next.cert.Leaf.Subject.CommonName; was != is {
		return false, fmt.Errorf("identity: certificate %s is of %q, and not of %q as before: restart to use it", b.Cert.Where, is, was)
	}
	c.now = next
	c.tell()
	return true, nil
}

// Block has nobody let in that is on b, from now on. It takes the place of what was blocked
// before.
func (c *Credentials) Block(b Blocklist) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !maps.Equal(b, c.blocked) {
		c.blocked = maps.Clone(b)
		c.tell()
	}
}

func (c *Credentials) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Changed returns a channel that is closed when the Credentials are next replaced, or other
// agents blocked.
func (c *Credentials) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Name returns the common name of the own certificate.
func (c *Credentials) Name() string { return c.get().cert.Leaf.Subject.CommonName }

// Claims finds out now what would otherwise be a connection that carries nothing: it returns
// an error if the own certificate is that of another agent, as far as it tells. One that has
// URIs may prove its name by them.
func (c *Credentials) Claims(agent string) error {
	leaf := c.get().cert.Leaf
	if name := leaf.Subject.CommonName; len(leaf.URIs) == 0 && CheckName(name) == nil && name != agent {
		return fmt.Errorf("identity: the certificate is of agent %q, not of %q", name, agent)
	}
	return nil
}

// Expiry returns when the own certificate expires.
func (c *Credentials) Expiry() time.Time { return c.get().cert.Leaf.NotAfter }

// Server returns the configuration of a server that serves only peers with a certificate of
// the CA.
func (c *Credentials) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  c.get().pool, // for who looks; each connection is made by the next
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.get().server, nil
		},
	}
}

// Client returns the configuration of a client that trusts only a server with a certificate
// of the CA for host, a name or an IP address.
func (c *Credentials) Client(host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: host,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert := c.get().cert
			return &cert, nil
		},
		// The library would verify by a pool of CAs that cannot be replaced: we do what it does.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			return c.get().verify(s.PeerCertificates, x509.VerifyOptions{DNSName: host, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		},
	}
}

// http1 is what is spoken in an envelope.
var http1 = []string{"http/1.1"}

// EnvelopeServer returns the configuration of a server that asks for no certificate: of HTTP/1.1
// in which connections are carried that are made by Server and Client. What comes by way of
// somebody else has none to show.
func (c *Credentials) EnvelopeServer() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.get().open, nil },
	}
}

// EnvelopeClient returns the configuration of a client of the same, which shows no certificate.
// It takes a server with a certificate for host, of the CA or of one that the system trusts, as
// whoever lies between is likely to have.
func (c *Credentials) EnvelopeClient(host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: host,
		NextProtos: http1,
		// As in Client.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			of := x509.VerifyOptions{DNSName: host, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
			err := c.get().verify(s.PeerCertificates, of)
			if err != nil && verify(s.PeerCertificates, nil, of) == nil {
				return nil
			}
			return err
		},
	}
}

// Trusts returns why an agent is not let in by certificates that it has shown, its own the
// first: be it now, or although it once was.
func (c *Credentials) Trusts(agent string, shown []*x509.Certificate, now time.Time) error {
	c.mu.Lock()
	blocked := c.blocked // never changed in place
	c.mu.Unlock()
	if err := blocked.check(agent, shown); err != nil {
		return err
	}
	return c.get().verify(shown, x509.VerifyOptions{CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

func (c *credential) verify(peer []*x509.Certificate, o x509.VerifyOptions) error {
	return verify(peer, c.pool, o)
}

// verify verifies what a peer has shown by a pool of CAs; nil are those of the system.
func verify(peer []*x509.Certificate, by *x509.CertPool, o x509.VerifyOptions) error {
	if len(peer) == 0 {
		return errors.New("identity: the peer has shown no certificate")
	}
	o.Roots, o.Intermediates = by, x509.NewCertPool()
	for _, cert := range peer[1:] {
		o.Intermediates.AddCert(cert)
	}
	if _, err := peer[0].Verify(o); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: peer, Err: err}
	}
	return nil
}
