package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Blocklist says who is not let in although its certificate is good, and why: an agent by its
// name, or a certificate by its fingerprint (see Fingerprint), be it the agent's own or that of
// a CA between. Neither can be taken for the other.
type Blocklist map[string]string

// NewBlocklist returns the Blocklist of what people have written: names, and fingerprints
// with or without colons in any case. What can be neither is in the error, and the rest is
// blocked all the same.
func NewBlocklist(reasons map[string]string) (Blocklist, error) {
	b := Blocklist{}
	var bad []error
	for _, who := range slices.Sorted(maps.Keys(reasons)) {
		entry, err := BlockEntry(who)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		b[entry] = reasons[who]
	}
	return b, errors.Join(bad...)
}

// BlockEntry returns the form in which a Blocklist has a name or a fingerprint.
func BlockEntry(who string) (string, error) {
	digits := strings.ToLower(strings.ReplaceAll(who, ":", ""))
	numeric := len(digits) > sha256.Size && strings.Trim(digits, "0123456789abcdef") == "" // or cut off
	switch err := CheckName(who); {
	case numeric && len(digits) == 2*sha256.Size:
		return digits, nil
	case numeric, err != nil:
		return "", fmt.Errorf("identity: %.80q is neither a SHA-256 fingerprint, of 64 hexadecimal digits, nor an agent's name", who)
	}
	return who, nil
}

// Fingerprint returns the SHA-256 of a certificate, in hexadecimal digits.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// check returns why an agent that has shown these certificates is not let in.
func (b Blocklist) check(agent string, shown []*x509.Certificate) error {
	blocked := func(what, entry string) error {
		why, ok := b[entry]
		switch {
		case !ok:
			return nil
		case strings.TrimSpace(why) == "":
			return fmt.Errorf("identity: %s is on the blocklist", what)
		}
		return fmt.Errorf("identity: %s is on the blocklist: %s", what, why)
	}
	if err := blocked("agent "+agent, agent); err != nil || len(b) == 0 {
		return err
	}
	for _, c := range shown {
		entry := Fingerprint(c)
		if err := blocked("certificate "+entry, entry); err != nil {
			return err
		}
	}
	return nil
}
