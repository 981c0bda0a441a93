package natslink

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"
)

// An operator is who signs the accounts of servers in operator mode.
type operator struct {
	key                          nkeys.KeyPair
	hub, agents, system, nowhere nkeys.KeyPair // of accounts
	issuer, signer, curve        nkeys.KeyPair // signing keys of hub and agents, and an xkey
	user, manager                nkeys.KeyPair // of hub and system
	claims                       map[string]*jwt.AccountClaims
	sentinel                     string // "" is none
}

func newOperator(t testing.TB) *operator {
	o := &operator{claims: map[string]*jwt.AccountClaims{}}
	for key, kind := range map[*nkeys.KeyPair]nkeys.PrefixByte{
		&o.key: nkeys.PrefixByteOperator, &o.hub: nkeys.PrefixByteAccount, &o.agents: nkeys.PrefixByteAccount, &o.system: nkeys.PrefixByteAccount,
		&o.nowhere: nkeys.PrefixByteAccount, &o.issuer: nkeys.PrefixByteAccount, &o.signer: nkeys.PrefixByteAccount,
		&o.user: nkeys.PrefixByteUser, &o.manager: nkeys.PrefixByteUser, &o.curve: nkeys.PrefixByteCurve,
	} {
		var err error
		*key, err = nkeys.CreatePair(kind)
		require.NoError(t, err)
	}
	for name, key := range map[string]nkeys.KeyPair{hubAccount: o.hub, agentsAccount: o.agents, systemAccount: o.system, nowhere: o.nowhere} {
		o.claims[name] = jwt.NewAccountClaims(public(t, key))
		o.claims[name].Name = name
	}
	hub, agents := o.claims[hubAccount], o.claims[agentsAccount]
	hub.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	hub.SigningKeys.Add(public(t, o.issuer))
	hub.Authorization = jwt.ExternalAuthorization{AuthUsers: jwt.StringList{public(t, o.user)}, AllowedAccounts: jwt.StringList{public(t, o.agents)}, XKey: public(t, o.curve)}
	agents.SigningKeys.Add(public(t, o.signer))
	agents.Imports.Add(&jwt.Import{Name: anchor, Subject: anchor, Account: public(t, o.nowhere), Type: jwt.Service})
	o.claims[nowhere].Exports.Add(&jwt.Export{Name: anchor, Subject: anchor, Type: jwt.Service})
	nobody, err := nkeys.CreateUser()
	require.NoError(t, err)
	u := jwt.NewUserClaims(public(t, nobody))
	u.BearerToken, u.IssuerAccount = true, public(t, o.hub)
	u.Pub.Deny.Add(">")
	u.Sub.Deny.Add(">")
	o.sentinel, err = u.Encode(o.issuer)
	require.NoError(t, err)
	return o
}

func public(t testing.TB, key nkeys.KeyPair) string {
	text, err := key.PublicKey()
	require.NoError(t, err)
	return text
}

func seed(t testing.TB, key nkeys.KeyPair) string {
	text, err := key.Seed()
	require.NoError(t, err)
	return string(text)
}

// conf is what the servers are told.
func (o *operator) conf(t testing.TB) string {
	own := jwt.NewOperatorClaims(public(t, o.key))
	own.SystemAccount = public(t, o.system)
	text, err := own.Encode(o.key)
	require.NoError(t, err)
	conf := fmt.Sprintf("operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload {\n", text, own.SystemAccount)
	for _, c := range o.claims {
		account, err := c.Encode(o.key)
		require.NoError(t, err)
		conf += fmt.Sprintf("  %s: %s\n", c.Subject, account)
	}
	conf += "}\nauthorization { timeout: 3 }\n"
	if o.sentinel != "" {
		conf += "default_sentinel: " + o.sentinel + "\n"
	}
	return conf
}

// creds returns what a user has of an account.
func (o *operator) creds(t testing.TB, account, user nkeys.KeyPair, expires time.Time) []byte {
	u := jwt.NewUserClaims(public(t, user))
	if !expires.IsZero() {
		u.Expires = expires.Unix()
	}
	token, err := u.Encode(account)
	require.NoError(t, err)
	text, err := jwt.FormatUserConfig(token, []byte(seed(t, user)))
	require.NoError(t, err)
	return text
}

// say has a Hub be who the operator means.
func (o *operator) say(t testing.TB, c *ClusterConfig) {
	read := func(account, user nkeys.KeyPair) func() (Creds, error) {
		text := o.creds(t, account, user, time.Time{})
		return func() (Creds, error) { return ParseCreds(text, time.Now()) }
	}
	c.User, c.Issuer, c.XKey = "", seed(t, o.issuer), seed(t, o.curve)
	c.Operator = &OperatorConfig{User: read(o.hub, o.user), System: read(o.system, o.manager), Agents: seed(t, o.signer)}
}
