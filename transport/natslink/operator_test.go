package natslink

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
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

// TestOperatorsThatWillNotDo: what is wrong with what an operator has signed is said at the start, and what
// to do.
func TestOperatorsThatWillNotDo(t *testing.T) {
	p := tlstest.NewAuthority(t)
	key := func(t *testing.T, kind nkeys.PrefixByte) nkeys.KeyPair {
		k, err := nkeys.CreatePair(kind)
		require.NoError(t, err)
		return k
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, o *operator)
		as     func(t *testing.T, o *operator, c *ClusterConfig)
		want   []string
	}{
		"no store": {change: func(_ *testing.T, o *operator) { o.claims[hubAccount].Limits.JetStreamLimits = jwt.JetStreamLimits{} },
			want: []string{"keeps no streams for this user", "nsc edit account --name HUB --js-enable"}},
		"nobody is asked": {change: func(_ *testing.T, o *operator) { o.claims[hubAccount].Authorization = jwt.ExternalAuthorization{} },
			want: []string{"account HUB (A", "has nobody asked who may connect", "nsc edit authcallout --account HUB --auth-user U"}},
		"another is asked": {change: func(t *testing.T, o *operator) {
			o.claims[hubAccount].Authorization.AuthUsers = jwt.StringList{public(t, key(t, nkeys.PrefixByteUser))}
		}, want: []string{"has others asked who may connect than the user of --nats-creds"}},
		"any account": {change: func(_ *testing.T, o *operator) {
			o.claims[hubAccount].Authorization.AllowedAccounts = jwt.StringList{jwt.AnyAccount}
		}, want: []string{`lets whom the principal lets in into ["*"]`, "that must be one account"}},
		"no such account": {change: func(_ *testing.T, o *operator) { delete(o.claims, agentsAccount) },
			want: []string{"account AGENTS (A", "is not known to the servers", "push its JWT to their resolver"}},
		"another issuer": {as: func(t *testing.T, _ *operator, c *ClusterConfig) { c.Issuer = seed(t, key(t, nkeys.PrefixByteAccount)) },
			want: []string{"account HUB (A", "is not signed for by A", "--nats-callout-seed"}},
		"another signer": {as: func(t *testing.T, _ *operator, c *ClusterConfig) {
			c.Operator.Agents = seed(t, key(t, nkeys.PrefixByteAccount))
		}, want: []string{"account AGENTS (A", "is not signed for by A", "--nats-agents-seed"}},
		"a signer with a role": {change: func(t *testing.T, o *operator) {
			role := jwt.NewUserScope()
			role.Key, role.Role = public(t, o.signer), "agents"
			o.claims[agentsAccount].SigningKeys.AddScopedSigner(role)
		}, want: []string{"account AGENTS (A", "is not signed for by A", "without a role"}},
		"no sentinel": {change: func(_ *testing.T, o *operator) { o.sentinel = "" },
			want: []string{"do not ask this principal who an agent is: write default_sentinel"}},
		"no xkey here": {as: func(_ *testing.T, _ *operator, c *ClusterConfig) { c.XKey = "" },
			want: []string{"has what is asked encrypted to X", "--nats-callout-xkey"}},
		"another xkey": {as: func(t *testing.T, _ *operator, c *ClusterConfig) { c.XKey = seed(t, key(t, nkeys.PrefixByteCurve)) },
			want: []string{"has what is asked encrypted to", "make them the same"}},
		"agents have a store": {change: func(_ *testing.T, o *operator) {
			o.claims[agentsAccount].Limits.JetStreamLimits = o.claims[hubAccount].Limits.JetStreamLimits
		}, want: []string{"account AGENTS (A", "has JetStream"}},
		"agents reach more": {change: func(t *testing.T, o *operator) {
			o.claims[agentsAccount].Imports.Add(&jwt.Import{Name: "x", Subject: "orders.>", Account: public(t, o.nowhere), Type: jwt.Stream})
			o.claims[nowhere].Exports.Add(&jwt.Export{Name: "x", Subject: "orders.>", Type: jwt.Stream})
		}, want: []string{`imports "orders.>"`, "it must import nothing but fabric.anchor"}},
		"no leaf nodes": {change: func(_ *testing.T, o *operator) { o.claims[hubAccount].Limits.LeafNodeConn = 0 },
			want: []string{"account HUB (A", "admits -1 connections, and 0 of leaf nodes"}},
		"no user of the system's": {as: func(_ *testing.T, _ *operator, c *ClusterConfig) { c.Operator.System = c.Operator.User },
			want: []string{"the user of --nats-system-creds is not in the system account"}},
		"another operator": {as: func(t *testing.T, _ *operator, c *ClusterConfig) { newOperator(t).say(t, c) },
			want: []string{"the servers must be in operator mode, and their resolver have the JWT of the user's account"}},
		"a seed": {as: func(t *testing.T, o *operator, c *ClusterConfig) { c.Operator, c.User = nil, seed(t, o.user) },
			want: []string{"in operator mode they know it by a JWT (--nats-creds)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &place{pki: p, operator: newOperator(t)}
			if c.change != nil {
				c.change(t, e.operator)
			}
			of := openPlace(t, e).hubConfig(t)
			if c.as != nil {
				c.as(t, e.operator, of.Cluster)
			}
			h, err := NewHub(of)
			require.NoError(t, err)
			err = h.Run(t.Context())
			for _, w := range c.want {
				require.ErrorContains(t, err, w)
			}
		})
	}
}

// TestCredsThatWillNotDo: what is wrong with them is said, and when they have expired.
func TestCredsThatWillNotDo(t *testing.T) {
	o, now := newOperator(t), time.Now()
	good := string(o.creds(t, o.hub, o.user, now.Add(time.Hour)))
	c, err := ParseCreds([]byte(good), now)
	require.NoError(t, err)
	require.Equal(t, []string{public(t, o.user), public(t, o.hub)}, []string{c.User, c.Account})
	_, err = ParseCreds([]byte(good), now.Add(2*time.Hour))
	require.ErrorContains(t, err, "has expired at "+now.Add(time.Hour).UTC().Format("2006-01-02T15:"))
	framed, err := jwt.DecorateSeed([]byte(seed(t, o.user)))
	require.NoError(t, err)
	for text, want := range map[string]string{
		"":              "there is no user's JWT",
		"text":          "there is no user's JWT",
		seed(t, o.user): "there is no user's JWT",
		string(framed):  "there is no user's JWT",
		"eyJ.text.text": "the JWT is none of a user",
		good[:strings.Index(good, seed(t, o.user))]:                   "there is no user's seed beside the JWT",
		strings.Replace(good, seed(t, o.user), seed(t, o.manager), 1): "they must be of one user",
	} {
		_, err := ParseCreds([]byte(text), now)
		require.ErrorContains(t, err, want)
	}
}

// TestCredsAreReadAgain: once others are in the place of creds, connections are made by them.
func TestCredsAreReadAgain(t *testing.T) {
	e := openPlace(t, &place{pki: tlstest.NewAuthority(t), operator: newOperator(t)})
	of := e.hubConfig(t)
	var text atomic.Pointer[[]byte]
	replace := func(expires time.Time) {
		creds := e.operator.creds(t, e.operator.hub, e.operator.user, expires)
		text.Store(&creds)
	}
	replace(time.Now().Add(time.Hour))
	of.Cluster.Operator.User = func() (Creds, error) { return ParseCreds(*text.Load(), time.Now()) }
	h, err := NewHub(of)
	require.NoError(t, err)
	h.base.(*cluster).reenterEvery = 10 * time.Millisecond
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	agent := dial(t, leafConfig(t, e.pki, "north", e.leafs))
	awaitEvent(t, hub, transport.Up)
	last := h.base.(*cluster).hub[hubStores-1]
	made := last.StatusChanged(nats.CONNECTED)
	replace(time.Now().Add(2 * time.Hour))
	require.Equal(t, nats.CONNECTED, <-made)
	require.NoError(t, hub.Send(t.Context(), value("key", "text")))
	await(t, agent, isValue("key", "text"))
	stop()
	require.NoError(t, <-ended)
}

// TestExternalJWTs: who shows a JWT that is not its own is not let in, and who shows the sentinel's is
// whom its certificate names.
func TestExternalJWTs(t *testing.T) {
	o := newOperator(t)
	s := besiegeElsewhere(t, &place{pki: tlstest.NewAuthority(t), operator: o})
	shown := func(account, user nkeys.KeyPair) string {
		c, err := ParseCreds(o.creds(t, account, user, time.Time{}), time.Now())
		require.NoError(t, err)
		return c.token
	}
	other := newOperator(t)
	for name, token := range map[string]string{
		"the principal's": shown(o.hub, o.user), "the system's": shown(o.system, o.manager),
		"of another operator": shown(other.agents, other.user), "an account's": shown(o.issuer, other.user),
	} {
		r := s.greets(fmt.Sprintf(`{"name":"north","jwt":%q,"headers":true,"protocol":1}`, token))
		require.False(t, r.until("PONG"), name)
		s.calm()
	}
	r := s.greets(fmt.Sprintf(`{"name":"north","jwt":%q,"headers":true,"protocol":1}`, o.sentinel))
	require.True(t, r.until("PONG"), "it is not let in")
	r.publishes("fabric.south.up.key", "", []byte("text"))
	r.says("PING\r\n")
	require.False(t, r.until("PONG"))
	s.calm()
}
