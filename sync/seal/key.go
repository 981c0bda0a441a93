// Package seal keeps what is secret from all that carries and keeps it on its way: logs,
// buses, dead letters and backups hold only what the two ends of a link can open.
//
// Each end has a Key, whose public half it tells to the other. What one Key and the public
// half of the other make is the same on both ends, a Pair, and nobody else has it. As it
// takes either private half to make a Pair, what it opens was sealed by one of the two.
//
// It protects from whoever reads, not from whoever may write to a link and so could put
// another public half in place of the peer's.
package seal

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
)

// A Key is what one end keeps to itself: a private key for X25519.
type Key struct{ private *ecdh.PrivateKey }

// A Public is the half of a Key that the other end is told: 32 bytes as base64url without
// padding.
type Public string

const block = "PRIVATE KEY"

// New makes a Key.
func New() (Key, error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("seal: make a key: %w", err)
	}
	return Key{private}, nil
}

// Parse is the inverse of Marshal. Its error does not quote the text.
func Parse(text []byte) (Key, error) {
	b, _ := pem.Decode(text)
	if b == nil || b.Type != block {
		return Key{}, errors.New("seal: parse key: it is no private key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(b.Bytes)
	if err != nil {
		return Key{}, errors.New("seal: parse key: it is no private key in PKCS #8")
	}
	private, ok := parsed.(*ecdh.PrivateKey)
	if !ok || private.Curve() != ecdh.X25519() {
		return Key{}, errors.New("seal: parse key: it is not for X25519")
	}
	return Key{private}, nil
}

// Marshal returns the Key as PKCS #8 in PEM, for a place that nobody else can read.
func (k Key) Marshal() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("seal: write key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der}), nil
}

// Zero reports whether there is no key in k.
func (k Key) Zero() bool { return k.private == nil }

// Public returns the half that may be told.
func (k Key) Public() Public {
	return Public(base64.RawURLEncoding.EncodeToString(k.private.PublicKey().Bytes()))
}

// String hides the Key from logs.
func (k Key) String() string { return "(key)" }

// GoString hides the Key from logs.
func (k Key) GoString() string { return k.String() }
