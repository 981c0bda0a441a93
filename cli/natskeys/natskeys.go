// Package natskeys makes what a cluster of NATS servers that runs by deploy/nats and the principal
// that uses it know each other by.
//
// There are two keys of NATS. The principal proves with one that it is the principal. With the other,
// the issuer's, it signs what it answers when a server asks who somebody else is: so the servers
// hold no secret of either. And there are two certificates of the agents' CA, neither of which can be an
// agent's. That of the servers is shown to agents and to the principal; between each other they take
// nothing but the key in it, since every agent has a certificate of the CA. The other is the principal's.
//
// For servers in operator mode there are an operator, accounts and creds in place of the principal's
// key: see Request.Operator.
package natskeys

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nkeys"

	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

// The files of Servers.
const (
	Keys   = "keys.conf"
	Routes = "routes.conf"
)

// The files of Principal.
const (
	User   = "principal.nk"
	Issuer = "callout.nk"
)

// The files of either.
const (
	Cert = "tls.crt"
	Key  = "tls.key"
	CA   = "ca.crt" // of all of them
)

// A Set is what a cluster and its principal are given: files, by their names.
type Set struct {
	Servers, Principal map[string][]byte
	Operator           map[string][]byte // what an operator keeps to itself; nothing but in operator mode
}

// A Request says what is to be made.
type Request struct {
	CA      *pki.CA  // of the agents
	Hosts   []string // the names and addresses of the servers
	Options pki.Options
	Renew   bool // certificates that are there, for the keys that they have
	// Operator is for servers in operator mode. Where there is a set for such it is always on.
	Operator bool
}

// Complete returns s with all that it lacks. What is there stays as it is, but for certificates that
// are to be renewed; the servers' holds for the hosts then that it held for, and for those of r.
func Complete(s Set, r Request) (Set, error) {
	m := maker{Request: r, set: Set{Servers: copied(s.Servers), Principal: copied(s.Principal), Operator: copied(s.Operator)}}
	known := m.nkeys
	if r.Operator || s.Principal[Creds] != nil {
		known = m.operator
	}
	for _, step := range []func() error{known, m.servers, m.principal} {
		if err := step(); err != nil {
			return s, fmt.Errorf("natskeys: %w", err)
		}
	}
	return m.set, nil
}

type maker struct {
	Request
	set Set
}

// nkeys makes the keys of NATS, and what says to the servers which they are.
func (m *maker) nkeys() error {
	said := m.set.Servers[Keys]
	issuer, err := m.seed(Issuer, nkeys.CreateAccount)
	if err != nil {
		return err
	}
	user, err := m.seed(User, nkeys.CreateUser)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("# Public keys. Made by argocd-agentctl nats init, which does not change them.\nCALLOUT_ISSUER: %s\nPRINCIPAL_USER: %s\n", issuer, user)
	if said != nil && string(said) != text {
		return fmt.Errorf("%s and the keys of the principal are not of each other: if the principal's are lost, remove what both were given, and begin anew", Keys)
	}
	m.set.Servers[Keys] = []byte(text)
	return nil
}

// seed returns the public key of a seed, which is made if there is none.
func (m *maker) seed(file string, create func() (nkeys.KeyPair, error)) (public string, err error) {
	var pair nkeys.KeyPair
	if text := m.set.Principal[file]; text != nil {
		pair, err = nkeys.ParseDecoratedNKey(text)
	} else if pair, err = create(); err == nil {
		m.set.Principal[file], err = pair.Seed()
	}
	if err == nil {
		public, err = pair.PublicKey()
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return public, nil
}

// servers makes the servers' certificate, and what says which key they know each other by.
func (m *maker) servers() error {
	s := m.set.Servers
	hosts, err := m.hosts(s)
	if err != nil {
		return err
	}
	err = m.certificate(s, func(o pki.Options) (pki.Pair, error) { return m.CA.IssuePeer("argocd-agent NATS server", hosts, o) })
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(s[Cert], s[Key])
	if err != nil {
		return fmt.Errorf("%s, %s of the servers: %w", Cert, Key, err)
	}
	sum := sha256.Sum256(pair.Leaf.RawSubjectPublicKeyInfo)
	text := fmt.Sprintf("# The SHA-256 of the servers' public key. Made by argocd-agentctl nats init.\nROUTE_KEY: \"%s\"\n", hex.EncodeToString(sum[:]))
	if said := s[Routes]; said != nil && string(said) != text {
		return fmt.Errorf("%s is not of the key in %s: remove it, run this again, and then stop all servers before they start anew", Routes, Key)
	}
	s[Routes] = []byte(text)
	return nil
}

// hosts returns what a certificate of the servers is to hold for. One that is there and is to stay must
// hold for all of it.
func (m *maker) hosts(files map[string][]byte) ([]string, error) {
	all := slices.Clone(m.Hosts)
	if files[Cert] == nil || files[Key] == nil {
		return all, nil
	}
	pair, err := tls.X509KeyPair(files[Cert], files[Key])
	if err != nil {
		return nil, fmt.Errorf("%s, %s of the servers: %w", Cert, Key, err)
	}
	for _, host := range m.Hosts {
		if !m.Renew && pair.Leaf.VerifyHostname(host) != nil {
			return nil, fmt.Errorf("the servers' certificate does not hold for %s: --renew issues another", host)
		}
	}
	all = append(all, pair.Leaf.DNSNames...)
	for _, ip := range pair.Leaf.IPAddresses {
		all = append(all, ip.String())
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (m *maker) principal() error {
	return m.certificate(m.set.Principal, func(o pki.Options) (pki.Pair, error) { return m.CA.IssueClient("argocd-agent principal", o) })
}

// certificate makes a certificate among files, with its CA's, where there is none, or it is to be renewed.
// With it is renewed what the CA is by now: another, or two while one takes the other's place.
func (m *maker) certificate(files map[string][]byte, issue func(pki.Options) (pki.Pair, error)) error {
	if files[CA] == nil || m.Renew {
		files[CA] = m.CA.Pair().Cert
	}
	o := m.Options
	switch o.Key = files[Key]; {
	case files[Cert] != nil && o.Key == nil:
		return errors.New("there is a certificate without its key: remove it")
	case files[Cert] != nil && !m.Renew:
		return m.signed(files)
	}
	pair, err := issue(o)
	if err != nil {
		return err
	}
	files[Cert], files[Key] = pair.Cert, pair.Key
	return nil
}

// signed returns an error unless the certificate among files is of the CA.
func (m *maker) signed(files map[string][]byte) error {
	pair, err := tls.X509KeyPair(files[Cert], files[Key])
	if err != nil {
		return fmt.Errorf("%s, %s: %w", Cert, Key, err)
	}
	for rest := m.CA.Pair().Cert; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return fmt.Errorf("the certificate of %s is of another CA: --renew issues one of this", pair.Leaf.Subject)
		}
		if ca, err := x509.ParseCertificate(block.Bytes); err == nil && pair.Leaf.CheckSignatureFrom(ca) == nil {
			return nil
		}
	}
}

func copied(files map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	for name, text := range files {
		out[name] = text
	}
	return out
}
