package token

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// What tokens say beside whom they name.
const (
	Issuer   = "argocd-agent-server"
	Audience = "argocd-agent-server-resource-proxy" // there are tokens for other purposes in existing installations
)

// Bounds on what is read.
const (
	MaxToken = 8 << 10 // bytes of a token
	MaxKeys  = 8       // of a text
	maxText  = 128 << 10
)

// parameters is the type of a block that openssl writes before a key that says the same.
const parameters = "EC PARAMETERS"

// skew is how much later than this one a clock may be that has made a token which says from
// when it is good.
const skew = time.Minute

// Errors of Verify, wrapped.
var (
	ErrNoKey   = errors.New("there is no key that tokens are signed by")
	ErrInvalid = errors.New("the token is not one of this control plane's")
)

// Keys are those whose tokens are good. The first signs; the others are there so that tokens
// which they have signed stay good until they are replaced.
type Keys []Key

// ParseKeys reads Keys, which are secret ones as PEM, one after the other.
func ParseKeys(text []byte) (Keys, error) {
	fail := func(err error) (Keys, error) { return nil, fmt.Errorf("token: read keys: %w", err) }
	if len(text) > maxText {
		return fail(fmt.Errorf("%d bytes are more than %d", len(text), maxText))
	}
	var all Keys
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type == parameters {
			continue
		}
		k, err := parseKey(block)
		switch {
		case err != nil:
			return fail(fmt.Errorf("PEM block %d: %w", len(all)+1, err))
		case len(all) == MaxKeys:
			return fail(fmt.Errorf("there are more than %d", MaxKeys))
		}
		all = append(all, k)
	}
	switch {
	case len(bytes.TrimSpace(text)) > 0:
		return fail(errors.New("there is something that is not PEM"))
	case len(all) == 0:
		return fail(errors.New("there is no PEM block"))
	}
	return all, nil
}

// First returns what there is in a text of Keys of the first.
func First(text []byte) ([]byte, error) {
	blocks, err := blocksOf(text)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(blocks[0]), nil
}

// Rotate returns a text of the Keys in fresh, and behind them those in old, whose tokens stay
// good.
func Rotate(fresh, old []byte) ([]byte, error) {
	var out bytes.Buffer
	for _, text := range [][]byte{fresh, old} {
		blocks, err := blocksOf(text)
		if err != nil {
			return nil, err
		}
		for _, b := range blocks {
			_ = pem.Encode(&out, b) // a Buffer takes all
		}
	}
	_, err := ParseKeys(out.Bytes())
	return out.Bytes(), err
}

// blocksOf returns the blocks of a text of Keys, one for each.
func blocksOf(text []byte) (all []*pem.Block, err error) {
	if _, err := ParseKeys(text); err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all, nil
		}
		if block.Type != parameters {
			all = append(all, block)
		}
	}
}

// Issue returns a token that names agent, of the first of the Keys.
func (k Keys) Issue(agent string, now time.Time) (string, error) {
	if err := identity.CheckName(agent); err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	if len(k) == 0 {
		return "", fmt.Errorf("token: issue one to %s: %w", agent, ErrNoKey)
	}
	text, err := jwt.NewWithClaims(k[0].method, jwt.RegisteredClaims{
		Issuer: Issuer, Subject: agent, Audience: jwt.ClaimStrings{Audience}, IssuedAt: jwt.NewNumericDate(now),
	}).SignedString(k[0].signer)
	if err != nil {
		return "", fmt.Errorf("token: issue one to %s: %w", agent, err)
	}
	return text, nil
}

// Verify returns the agent that a token names. It returns ErrInvalid unless one of the Keys has
// signed it, for this purpose, and ErrNoKey if there are none. Whether the agent is registered
// it does not know.
func (k Keys) Verify(token string, now time.Time) (agent string, err error) {
	if len(k) == 0 {
		return "", fmt.Errorf("token: %w", ErrNoKey)
	}
	if len(token) > MaxToken {
		return "", fmt.Errorf("token: %w: it is of more than %d bytes", ErrInvalid, MaxToken)
	}
	for _, key := range k {
		if agent, err = key.verify(token, now); err == nil {
			return agent, nil
		}
	}
	return "", fmt.Errorf("token: %w: %w", ErrInvalid, err)
}

// Current reports whether a token names agent and is of the first of the Keys, so that there is
// no need for another.
func (k Keys) Current(token, agent string, now time.Time) bool {
	if len(k) == 0 {
		return false
	}
	named, err := k[:1].Verify(token, now)
	return err == nil && named == agent
}

func (k Key) verify(token string, now time.Time) (string, error) {
	if k.method == nil {
		return "", ErrNoKey
	}
	var is jwt.RegisteredClaims
	read, err := jwt.ParseWithClaims(token, &is, func(*jwt.Token) (any, error) { return k.signer.Public(), nil },
		jwt.WithValidMethods([]string{k.method.Alg()}), jwt.WithStrictDecoding(),
		jwt.WithIssuer(Issuer), jwt.WithAudience(Audience),
		jwt.WithLeeway(skew), jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil {
		return "", err
	}
	if _, asks := read.Header["crit"]; asks {
		return "", errors.New("it asks for what is not known here")
	}
	if !slices.Equal(is.Audience, jwt.ClaimStrings{Audience}) {
		return "", errors.New("it is for more than one purpose")
	}
	return is.Subject, identity.CheckName(is.Subject)
}
