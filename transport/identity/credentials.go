package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	cert   *tls.Certificate // nil: this side has a Login, or speaks in plaintext
	pool   *x509.CertPool   // nil: in plaintext
	server *tls.Config      // one, so that sessions can be resumed until it is replaced
	open   *tls.Config      // the same for EnvelopeServer
	any    *tls.Config      // the same for VisitorServer
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
	next := &credential{bundle: b, cert: cert, pool: pool}
	if cert != nil {
		next.server = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*cert}, ClientAuth: b.clientAuth(), ClientCAs: pool}
		next.open = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cert}, NextProtos: http1}
		next.any = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*cert}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool, NextProtos: http2}
	}
	return next, nil
}

// clientAuth returns what a principal asks of those who connect.
func (b Bundle) clientAuth() tls.ClientAuthType {
	if b.Users != nil {
		return tls.NoClientCert
	}
	return tls.RequireAndVerifyClientCert
}

// name returns the name that this side goes by of itself.
func (c *credential) name() string {
	if c.cert == nil {
		return c.bundle.Login.User
	}
	return c.cert.Leaf.Subject.CommonName
}

func (c *Credentials) get() *credential {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Replace has b used from now on, and reports whether it is another than before. After an
// error all stays as it is.
func (c *Credentials) Replace(b Bundle, now time.Time) (changed bool, err error) {
	return c.replace(b, now, func(*credential, *credential) {})
}

// replace is Replace, which says what is replaced by what before anybody acts on it.
func (c *Credentials) replace(b Bundle, now time.Time, say func(was, is *credential)) (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.equal(c.now.bundle) {
		return false, nil
	}
	next, err := newCredential(b, now)
	if err != nil {
		return false, err
	}
	if was, is := c.now.name(), next.name(); was != is {
		return false, fmt.Errorf("identity: %s is of %q, and not of %q as before: restart to use it", b.whose(), is, was)
	}
	say(c.now, next)
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

// Name returns the common name of the own certificate, or the user of the Login.
func (c *Credentials) Name() string { return c.get().name() }

// Login returns what is to be said where there is no certificate of this side's, else the zero
// Login.
func (c *Credentials) Login() Login { return c.get().bundle.Login }

// Claims finds out now what would otherwise be a connection that carries nothing: it returns
// an error if the own certificate or Login is that of another agent, as far as it tells. A
// certificate that has URIs may prove its name by them.
func (c *Credentials) Claims(agent string) error {
	now := c.get()
	name := now.name()
	byURI := now.cert != nil && len(now.cert.Leaf.URIs) > 0
	if !byURI && CheckName(name) == nil && name != agent {
		return fmt.Errorf("identity: the %s is of agent %q, not of %q", now.bundle.what(), name, agent)
	}
	return nil
}

// Plain reports whether there is to be no TLS, which a proxy does.
func (c *Credentials) Plain() bool { return c.get().bundle.Plain }

// Expiry returns when the own certificate expires; zero if there is none.
func (c *Credentials) Expiry() time.Time {
	_, end := c.get().life()
	return end
}

// life returns when the own certificate begins and ends to hold; zero if there is none.
func (c *credential) life() (begin, end time.Time) {
	if c.cert == nil {
		return begin, end
	}
	return c.cert.Leaf.NotBefore, c.cert.Leaf.NotAfter
}

// Server returns the configuration of a server that serves only peers with a certificate of
// the CA; or any, where Users say who may be served. It is nil if there is to be no TLS.
func (c *Credentials) Server() *tls.Config {
	now := c.get() // for who looks; each connection is made by the next
	if now.bundle.Plain {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: now.bundle.clientAuth(),
		ClientCAs:  now.pool,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.get().server, nil
		},
	}
}

// Client returns the configuration of a client that trusts only a server with a certificate
// of the CA for host, a name or an IP address, or for the Peer of the Bundle. It is nil if there is to be no TLS.
func (c *Credentials) Client(host string) *tls.Config {
	if c.Plain() {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: host,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if cert := c.get().cert; cert != nil {
				return cert, nil
			}
			return &tls.Certificate{}, nil // there is none to show
		},
		// The library would verify by a pool of CAs that cannot be replaced: we do what it does.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			return c.get().verifyServer(s.PeerCertificates, host)
		},
	}
}

// http1 is what is spoken in an envelope, http2 what is to visitors.
var (
	http1 = []string{"http/1.1"}
	http2 = []string{"h2", "http/1.1"}
)

// VisitorServer returns the configuration of a server of HTTP that serves also peers without a
// certificate, who may prove by other means who they are. One that is shown must be of the CA.
func (c *Credentials) VisitorServer() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         http2,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.get().any, nil },
	}
}

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

// Trusts returns why an agent is not let in by what it has proved: be it now, or although it
// once was.
func (c *Credentials) Trusts(p Proof, now time.Time) error {
	c.mu.Lock()
	blocked, cur := c.blocked, c.now // never changed in place
	c.mu.Unlock()
	if p.stands == nil {
		return errUnproved
	}
	if err := blocked.check(p.Agent, p.Certificates); err != nil {
		return err
	}
	return p.stands(cur, now)
}

// Blocked returns why an agent is not let in whatever it proves; nil if it may be.
func (c *Credentials) Blocked(p Proof) error {
	c.mu.Lock()
	blocked := c.blocked // never changed in place
	c.mu.Unlock()
	return blocked.check(p.Agent, p.Certificates)
}

// verifyServer returns why who was dialled as host is not the principal.
func (c *credential) verifyServer(peer []*x509.Certificate, host string) error {
	o := x509.VerifyOptions{DNSName: host, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	id := c.bundle.Peer
	if id == "" {
		return c.verify(peer, o)
	}
	o.DNSName = ""
	if err := c.verify(peer, o); err != nil {
		return err
	}
	if has := uris(peer[0]); !slices.Equal(has, []string{id}) {
		return &tls.CertificateVerificationError{UnverifiedCertificates: peer, Err: fmt.Errorf("identity: the principal is to be %s, and not %q", id, has)}
	}
	return nil
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
