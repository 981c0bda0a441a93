package natslink

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// errCreds is of a .creds file by which nobody is let in. It is not tried again at the start.
var errCreds = errors.New("creds")

// Creds are the text of a .creds file: the JWT that says which user somebody is, of which account, and
// the seed of the key by which it is proved.
type Creds struct {
	User    string // its public key
	Account string // the public key of its account
	Expires time.Time

	token string
	key   nkeys.KeyPair
}

// ParseCreds reads what is in a .creds file, as nsc and argocd-agentctl nats init write it, and refuses
// what does not hold now.
func ParseCreds(text []byte, now time.Time) (Creds, error) {
	fail := func(format string, args ...any) (Creds, error) {
		return Creds{}, fmt.Errorf("natslink: %w: "+format, append([]any{errCreds}, args...)...)
	}
	token, err := jwt.ParseDecoratedJWT(text)
	if err != nil || token == "" || token[0] != 'e' { // a text without any frame is returned as it is
		return fail("there is no user's JWT: servers in operator mode know users by it, and those that have their users in their configuration take a seed alone (--nats-nkey)")
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return fail("the JWT is none of a user: %w", err)
	}
	c := Creds{User: claims.Subject, Account: claims.Issuer, token: token}
	if claims.IssuerAccount != "" {
		c.Account = claims.IssuerAccount
	}
	if claims.Expires > 0 {
		c.Expires = time.Unix(claims.Expires, 0)
	}
	if c.key, err = nkeys.ParseDecoratedUserNKey(text); err != nil {
		return fail("there is no user's seed beside the JWT: %w", err)
	}
	switch public, err := c.key.PublicKey(); {
	case err != nil:
		return fail("%w", err)
	case public != c.User:
		return fail("the seed is of %s, and the JWT of %s: they must be of one user", public, c.User)
	case !c.Expires.IsZero() && !now.Before(c.Expires):
		return fail("the JWT of user %s (%s) has expired at %s: have another one made", c.User, claims.Name, c.Expires.UTC().Format(time.RFC3339))
	case claims.NotBefore > now.Unix():
		return fail("the JWT of user %s (%s) is not valid before %s", c.User, claims.Name, time.Unix(claims.NotBefore, 0).UTC().Format(time.RFC3339))
	}
	return c, nil
}

// asCreds has a connection made by creds, which are read with each attempt: a JWT that is about to expire
// is replaced in its place, and the servers close the connection when it does.
func asCreds(read func() (Creds, error)) nats.Option {
	return func(o *nats.Options) error {
		o.UserJWT = func() (string, error) {
			c, err := read()
			return c.token, err
		}
		o.SignatureCB = func(nonce []byte) ([]byte, error) {
			c, err := read()
			if err != nil {
				return nil, err
			}
			return c.key.Sign(nonce)
		}
		return nil
	}
}
