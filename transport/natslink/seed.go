package natslink

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nkeys"
)

// UserSeed returns the seed of a user in what nk or nsc has written, for ClusterConfig.User.
func UserSeed(text []byte) (string, error) { return seedIn(text, nkeys.PrefixByteUser) }

// IssuerSeed returns the seed of an account in the same, for ClusterConfig.Issuer.
func IssuerSeed(text []byte) (string, error) { return seedIn(text, nkeys.PrefixByteAccount) }

// XKeySeed returns the seed of a curve key in the same, for ClusterConfig.XKey.
func XKeySeed(text []byte) (string, error) {
	for word := range strings.FieldsSeq(string(text)) {
		if _, _, err := keyOf(word, nkeys.PrefixByteCurve); err == nil {
			return word, nil
		}
	}
	return "", errors.New("natslink: find a seed: there is none of a curve key (SX...)")
}

func seedIn(text []byte, kind nkeys.PrefixByte) (string, error) {
	key, err := nkeys.ParseDecoratedNKey(text)
	if err != nil {
		return "", fmt.Errorf("natslink: find a seed: %w", err)
	}
	seed, err := key.Seed()
	if err != nil {
		return "", fmt.Errorf("natslink: find a seed: %w", err)
	}
	if _, _, err := keyOf(string(seed), kind); err != nil {
		return "", fmt.Errorf("natslink: find a seed: %w", err)
	}
	return string(seed), nil
}

// keyOf returns the key of a seed, which must be of a kind, and its public half.
func keyOf(seed string, kind nkeys.PrefixByte) (key nkeys.KeyPair, public string, err error) {
	is, _, err := nkeys.DecodeSeed([]byte(seed))
	if err != nil {
		return nil, "", err
	}
	if is != kind {
		return nil, "", fmt.Errorf("it is the seed of a key for %s, and must be one for %s", is, kind)
	}
	if key, err = nkeys.FromSeed([]byte(seed)); err == nil {
		public, err = key.PublicKey()
	}
	return key, public, err
}
