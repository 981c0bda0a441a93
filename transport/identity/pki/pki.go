// Package pki makes the certificates that a principal and its agents prove their names
// with, for set-ups that have no CA of their own.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"regexp"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// A KeyType is an algorithm for private keys.
type KeyType string

// The key types. ECDSA, on P-256, is the default.
const (
	ECDSA   KeyType = "ecdsa"
	RSA     KeyType = "rsa" // of 3072 bits
	Ed25519 KeyType = "ed25519"
)

// backdate is how long before it is made a certificate is valid, for clocks that are late.
const backdate = 5 * time.Minute

// A Pair is a certificate and its private key, both in PEM.
type Pair struct {
	Cert, Key []byte
}

// Options say how a certificate is made.
type Options struct {
	Now      time.Time     // the certificate is valid from shortly before
	Lifetime time.Duration // and for so long
	KeyType  KeyType       // "" is ECDSA
	Key      []byte        // that is certified, in PEM; nil is a new one
	URI      *url.URL      // that an agent's certificate names beside the agent, such as a SPIFFE ID; nil is none
}

// A CA signs certificates. The zero value is not usable: see NewCA and LoadCA.
type CA struct {
	pair   Pair
	cert   *x509.Certificate
	signer crypto.Signer
}

// NewCA makes a CA with the given name.
func NewCA(name string, o Options) (*CA, error) {
	template, err := o.template(name)
	if err != nil {
		return nil, fmt.Errorf("pki: make CA: %w", err)
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	pair, err := o.make(template, nil)
	if err != nil {
		return nil, fmt.Errorf("pki: make CA: %w", err)
	}
	return LoadCA(pair)
}

// LoadCA returns the CA whose certificate and key p holds.
func LoadCA(p Pair) (*CA, error) {
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return nil, fmt.Errorf("pki: load CA: %w", err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("pki: load CA: %q is not the certificate of a CA", pair.Leaf.Subject)
	}
	return &CA{pair: p, cert: pair.Leaf, signer: signer}, nil
}

// Pair returns the CA's certificate, which is public, and its key, which is not.
func (c *CA) Pair() Pair { return c.pair }

// IssueServer issues the certificate of a principal that is reached under hosts, which
// are DNS names or IP addresses.
func (c *CA) IssueServer(name string, hosts []string, o Options) (Pair, error) {
	template, err := o.serverTemplate(name, hosts)
	if err != nil {
		return Pair{}, fmt.Errorf("pki: issue server certificate: %w", err)
	}
	return c.issue("server certificate", template, o)
}

// IssuePeer issues the certificate of a server that is also a client of others of its kind.
func (c *CA) IssuePeer(name string, hosts []string, o Options) (Pair, error) {
	template, err := o.serverTemplate(name, hosts)
	if err == nil {
		err = checkOther(name)
	}
	if err != nil {
		return Pair{}, fmt.Errorf("pki: issue peer certificate: %w", err)
	}
	template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	return c.issue("peer certificate", template, o)
}

// IssueClient issues the certificate of a client that is no agent.
func (c *CA) IssueClient(name string, o Options) (Pair, error) {
	template, err := o.template(name)
	if err == nil {
		err = checkOther(name)
	}
	if err != nil {
		return Pair{}, fmt.Errorf("pki: issue client certificate: %w", err)
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return c.issue("client certificate", template, o)
}

// checkOther refuses a name that an agent may have: who shows the certificate would be that agent.
func checkOther(name string) error {
	if identity.CheckName(name) == nil {
		return fmt.Errorf("%q could be an agent", name)
	}
	return nil
}

// hostName is what clients find in a certificate: labels, of which the first may be any one. A name in
// other letters is written as its punycode.
var hostName = regexp.MustCompile(`^(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)

// CheckHost returns what is wrong with a DNS name or IP address that a certificate is to hold for.
func CheckHost(host string) error {
	if net.ParseIP(host) == nil && (len(host) > 253 || !hostName.MatchString(host)) {
		return fmt.Errorf("%q is neither the name of a host nor an address", host)
	}
	return nil
}

func (o Options) serverTemplate(name string, hosts []string) (*x509.Certificate, error) {
	template, err := o.template(name)
	if err == nil && len(hosts) == 0 {
		err = errors.New("no host to be reached under")
	}
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		if err := CheckHost(h); err != nil {
			return nil, err
		}
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return template, nil
}

// IssueAgent issues the client certificate of an agent.
func (c *CA) IssueAgent(agent string, o Options) (Pair, error) {
	if err := identity.CheckName(agent); err != nil {
		return Pair{}, fmt.Errorf("pki: issue agent certificate: %w", err)
	}
	template, err := o.template(agent)
	if err != nil {
		return Pair{}, fmt.Errorf("pki: issue agent certificate: %w", err)
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return c.issue("agent certificate", template, o)
}

func (c *CA) issue(what string, template *x509.Certificate, o Options) (Pair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if o.URI != nil {
		template.URIs = []*url.URL{o.URI}
	}
	if template.NotAfter.After(c.cert.NotAfter) {
		template.NotAfter = c.cert.NotAfter
	}
	pair, err := o.make(template, c)
	if err != nil {
		return Pair{}, fmt.Errorf("pki: issue %s: %w", what, err)
	}
	return pair, nil
}

func (o Options) template(name string) (*x509.Certificate, error) {
	if name == "" || o.Now.IsZero() || o.Lifetime <= 0 {
		return nil, errors.New("a name, a time and a positive lifetime are needed")
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    o.Now.Add(-backdate),
		NotAfter:     o.Now.Add(o.Lifetime),
	}, nil
}

// make makes a key and the certificate of it, signed by ca or, if that is nil, by itself.
func (o Options) make(template *x509.Certificate, ca *CA) (Pair, error) {
	key, err := o.key()
	if err != nil {
		return Pair{}, fmt.Errorf("make key: %w", err)
	}
	parent, signer := template, key
	if ca != nil {
		parent, signer = ca.cert, ca.signer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, fmt.Errorf("sign certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode key: %w", err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

func (o Options) key() (crypto.Signer, error) {
	if o.Key != nil {
		return parseKey(o.Key)
	}
	switch o.KeyType {
	case ECDSA, "":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case RSA:
		return rsa.GenerateKey(rand.Reader, 3072)
	case Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("unknown key type %q", o.KeyType)
}

func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it is no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("it signs nothing")
	}
	return signer, nil
}
