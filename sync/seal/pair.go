package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// A Pair is what the two ends of a link share. It is safe for concurrent use.
type Pair struct {
	digest  string
	out, in cipher.AEAD
}

// ErrOpen says that something cannot be opened.
var ErrOpen = errors.New("it is sealed with other keys than those of the two sides now, or was changed on its way")

// label sets what is derived here apart from what others may derive from the same secret.
const label = "argocd-agent seal v1"

// Between returns what own and the Key of a peer share. It fails for what is no public
// half, or our own.
func Between(own Key, peer Public) (*Pair, error) {
	fail := func(err error) (*Pair, error) { return nil, fmt.Errorf("seal: public half of the peer's key: %w", err) }
	raw, err := base64.RawURLEncoding.Strict().DecodeString(string(peer))
	if err != nil {
		return fail(errors.New("it is no base64url"))
	}
	public, err := ecdh.X25519().NewPublicKey(raw)
	if err != nil {
		return fail(err)
	}
	if peer == own.Public() {
		return fail(errors.New("it is our own"))
	}
	shared, err := own.private.ECDH(public)
	if err != nil {
		return fail(err)
	}
	digest, err := derive(shared, "digest", min(own.Public(), peer), max(own.Public(), peer))
	if err != nil {
		return nil, err
	}
	p := &Pair{digest: hex.EncodeToString(digest)}
	if p.out, err = aead(shared, own.Public(), peer); err != nil {
		return nil, err
	}
	p.in, err = aead(shared, peer, own.Public())
	return p, err
}

// aead returns what seals from one end to the other.
func aead(shared []byte, from, to Public) (cipher.AEAD, error) {
	key, err := derive(shared, "body", from, to)
	if err != nil {
		return nil, err
	}
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	a, err := cipher.NewGCMWithRandomNonce(b)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return a, nil
}

// derive returns a key for one use. The public halves are of one length and have no space.
func derive(shared []byte, use string, a, b Public) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, shared, nil, strings.Join([]string{label, use, string(a), string(b)}, " "), sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("seal: derive a key: %w", err)
	}
	return key, nil
}

// Digest returns the key for digests of what is secret: 64 hexadecimal digits, the same on
// both ends. Whoever does not have it cannot find out by guessing what a digest is of.
func (p *Pair) Digest() string { return p.digest }

// Seal returns text such that the other end alone can open it, and only as the value that
// key has under a digest. The same text looks different each time.
func (p *Pair) Seal(text []byte, key, digest string) []byte {
	return p.out.Seal(nil, nil, text, place(key, digest))
}

// Open is the inverse of the other end's Seal. Its error is ErrOpen.
func (p *Pair) Open(sealed []byte, key, digest string) ([]byte, error) {
	text, err := p.in.Open(nil, nil, sealed, place(key, digest))
	if err != nil {
		return nil, ErrOpen
	}
	return text, nil
}

// String hides the Pair from logs.
func (p *Pair) String() string { return "(pair of keys)" }

// GoString hides the Pair from logs.
func (p *Pair) GoString() string { return p.String() }

// place returns the additional data of a value.
func place(key, digest string) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(len(key)))
	return append(append(b, key...), digest...)
}
