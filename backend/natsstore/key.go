package natsstore

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// ownerKey is the key under which it is noted whose bucket it is. Keys of objects have
// three tokens.
const ownerKey = "owner"

// maxKey is how long a key of the bucket may be: a subject must fit into a control line of
// the protocol, beside its reply.
const maxKey = 1024

// encodeKey returns the key of the bucket under which the object k is: its kind, namespace
// and name as three tokens. Different objects have different keys.
func encodeKey(k resource.Key) (string, error) {
	tokens := []string{string(k.Kind), k.Namespace, k.Name}
	for i, t := range tokens {
		if !utf8.ValidString(t) {
			return "", fmt.Errorf("%w: %q is no name", backend.ErrRefused, t)
		}
		tokens[i] = escape(t)
	}
	key := strings.Join(tokens, ".")
	switch {
	case k.Kind == "" || k.Name == "":
		return "", fmt.Errorf("%w: it has no kind or no name", backend.ErrRefused)
	case len(key) > maxKey:
		return "", fmt.Errorf("%w: its name takes %d bytes, of %d", backend.ErrRefused, len(key), maxKey)
	}
	return key, nil
}

// decodeKey is the inverse of encodeKey. Of all spellings only encodeKey's is good.
func decodeKey(key string) (k resource.Key, err error) {
	tokens := strings.Split(key, ".")
	if len(tokens) != 3 {
		return k, errors.New("the key is none of kind, namespace and name")
	}
	for i, t := range tokens {
		if tokens[i], err = unescape(t); err != nil {
			return k, err
		}
	}
	k = resource.Key{Kind: resource.Kind(tokens[0]), Namespace: tokens[1], Name: tokens[2]}
	if again, err := encodeKey(k); err != nil || again != key {
		return resource.Key{}, errors.New("the key is not how an object's is written")
	}
	return k, nil
}

// escape returns a text as a token of letters, digits, "-" and "_", which stand for
// themselves, and "=" with two hexadecimal digits for every other byte. An empty text is a
// bare "=".
func escape(text string) string {
	if text == "" {
		return "="
	}
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

func unescape(token string) (string, error) {
	if token == "=" {
		return "", nil
	}
	first, escaped, _ := strings.Cut(token, "=")
	var b strings.Builder
	b.WriteString(first)
	if len(first) == len(token) {
		return token, nil
	}
	for _, piece := range strings.Split(escaped, "=") {
		if len(piece) < 2 {
			return "", errors.New("an escape in the key is cut off")
		}
		c, err := hex.DecodeString(piece[:2])
		if err != nil {
			return "", fmt.Errorf("an escape in the key: %w", err)
		}
		b.Write(c)
		b.WriteString(piece[2:])
	}
	return b.String(), nil
}
