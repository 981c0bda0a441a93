package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

// A Kind is an algorithm for keys.
type Kind string

// The kinds of keys that can be made.
const (
	RSA     Kind = "rsa" // what existing installations know
	ECDSA   Kind = "ecdsa"
	Ed25519 Kind = "ed25519"
)

// Sizes of RSA keys, in bits. Smaller keys can be broken, larger ones keep whoever signs and
// checks busy.
const (
	DefaultBits = 4096
	MinBits     = 2048
	MaxBits     = 8192
)

// A Key signs tokens, and tells those that it has signed. The zero Key does neither. When
// it is printed it does not show its secret.
type Key struct {
	signer crypto.Signer
	method jwt.SigningMethod // the only one that it signs by and takes
}

// NewKey returns another secret key, as PEM. bits is the size of one of RSA; 0 is DefaultBits.
func NewKey(kind Kind, bits int) ([]byte, error) {
	signer, err := generate(kind, bits)
	var der []byte
	if err == nil {
		der, err = x509.MarshalPKCS8PrivateKey(signer)
	}
	if err != nil {
		return nil, fmt.Errorf("token: make key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func generate(kind Kind, bits int) (crypto.Signer, error) {
	switch kind {
	case RSA:
		if bits == 0 {
			bits = DefaultBits
		}
		if bits < MinBits || bits > MaxBits {
			return nil, fmt.Errorf("%d bits are not from %d to %d", bits, MinBits, MaxBits)
		}
		return rsa.GenerateKey(rand.Reader, bits)
	case ECDSA:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("there is no kind %q", kind)
}

// parseKey reads one secret key in any of the forms that openssl writes.
func parseKey(block *pem.Block) (Key, error) {
	var parsed any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return Key{}, fmt.Errorf("%.40q is no secret key", block.Type)
	}
	if err != nil {
		return Key{}, errors.New("a secret key cannot be read") // what is wrong might tell of the key
	}
	return keyOf(parsed)
}

// keyOf returns the Key of a parsed one. Its kind says by which method it signs, whatever a
// token claims: else a token could choose one for which the public half is enough.
func keyOf(parsed any) (Key, error) {
	switch k := parsed.(type) {
	case *rsa.PrivateKey:
		if bits := k.N.BitLen(); bits < MinBits || bits > MaxBits {
			return Key{}, fmt.Errorf("an RSA key of %d bits is not from %d to %d", bits, MinBits, MaxBits)
		}
		return Key{k, jwt.SigningMethodRS512}, nil
	case *ecdsa.PrivateKey:
		by := map[elliptic.Curve]jwt.SigningMethod{
			elliptic.P256(): jwt.SigningMethodES256, elliptic.P384(): jwt.SigningMethodES384, elliptic.P521(): jwt.SigningMethodES512,
		}[k.Curve]
		if by == nil {
			return Key{}, fmt.Errorf("no tokens are signed on curve %s", k.Curve.Params().Name)
		}
		return Key{k, by}, nil
	case ed25519.PrivateKey:
		return Key{k, jwt.SigningMethodEdDSA}, nil
	}
	return Key{}, fmt.Errorf("no tokens are signed by a %T", parsed)
}

// Algorithm returns what tokens of the Key say that they are signed by, such as RS512.
func (k Key) Algorithm() string {
	if k.method == nil {
		return "none"
	}
	return k.method.Alg()
}

// Size returns how many bits the Key has.
func (k Key) Size() int {
	switch s := k.signer.(type) {
	case *rsa.PrivateKey:
		return s.N.BitLen()
	case *ecdsa.PrivateKey:
		return s.Curve.Params().BitSize
	case ed25519.PrivateKey:
		return 8 * ed25519.PublicKeySize
	}
	return 0
}

// Fingerprint returns the SHA-256 of the public half, in hex, by which people tell keys apart.
func (k Key) Fingerprint() string {
	if k.signer == nil {
		return ""
	}
	der, err := x509.MarshalPKIXPublicKey(k.signer.Public())
	if err != nil {
		return "" // there is none of a kind that was parsed
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// String returns what may be told of the Key: its algorithm and the beginning of its
// Fingerprint.
func (k Key) String() string { return fmt.Sprintf("%s key %.16s", k.Algorithm(), k.Fingerprint()) }

// GoString is String, so that no way of printing shows the secret.
func (k Key) GoString() string { return k.String() }
