package natskeys

import (
	"fmt"
	"slices"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// Accounts is the file of Servers in operator mode: who is who there, in place of the one in deploy/nats.
const Accounts = "accounts.conf"

// The files of Principal in operator mode, beside Issuer: creds of its users, and the key to which
// servers encrypt what they ask.
const (
	Creds       = "principal.creds"
	SystemCreds = "system.creds"
	XKey        = "callout.xk"
)

// The files of Operator, which nobody needs until something is to be signed anew.
const (
	OperatorKey = "operator.nk"
	HubKey      = "hub.nk"
	AgentsKey   = "agents.nk"
	SystemKey   = "system.nk"
	NowhereKey  = "nowhere.nk"
)

// anchor is the subject of the import that leads nowhere: see anchor.go of transport/natslink.
const anchor = "fabric.anchor"

// operatorFiles are what is made together, and stays together.
func (s Set) operatorFiles() map[string]map[string][]byte {
	return map[string]map[string][]byte{
		Accounts: s.Servers,
		Creds:    s.Principal, SystemCreds: s.Principal, Issuer: s.Principal, XKey: s.Principal,
		OperatorKey: s.Operator, HubKey: s.Operator, AgentsKey: s.Operator, SystemKey: s.Operator, NowhereKey: s.Operator,
	}
}

// operator makes an operator, its accounts, and who is in them, unless they are there. One JWT names
// the keys of another, so that what is lost cannot be made again alone.
func (m *maker) operator() error {
	var has, lacks []string
	for name, files := range m.set.operatorFiles() {
		if files[name] != nil {
			has = append(has, name)
		} else {
			lacks = append(lacks, name)
		}
	}
	switch {
	case m.set.Servers[Keys] != nil:
		return fmt.Errorf("there is %s, of servers that have their users in their configuration: for servers in operator mode begin anew, in another place", Keys)
	case len(lacks) == 0:
		return nil
	case len(has) > 0:
		slices.Sort(has)
		slices.Sort(lacks)
		return fmt.Errorf("of what is made for operator mode there is %v, and not %v: put that back, or remove all of it and begin anew", has, lacks)
	}
	return newOperator(m.set)
}

// A signatory makes keys, and signs.
type signatory struct {
	set  Set
	keys map[string]nkeys.KeyPair // by file
	err  error                    // the first that there was
}

func newOperator(s Set) error {
	o := &signatory{set: s, keys: map[string]nkeys.KeyPair{}}
	for file, kind := range map[string]nkeys.PrefixByte{
		OperatorKey: nkeys.PrefixByteOperator, HubKey: nkeys.PrefixByteAccount, AgentsKey: nkeys.PrefixByteAccount, SystemKey: nkeys.PrefixByteAccount,
		NowhereKey: nkeys.PrefixByteAccount, Issuer: nkeys.PrefixByteAccount, XKey: nkeys.PrefixByteCurve, Creds: nkeys.PrefixByteUser, SystemCreds: nkeys.PrefixByteUser,
	} {
		o.make(file, kind)
	}
	if o.err != nil {
		return o.err
	}
	s.Servers[Accounts] = []byte(o.accounts())
	o.creds(Creds, HubKey, "argocd-agent principal")
	o.creds(SystemCreds, SystemKey, "argocd-agent principal")
	return o.err
}

// make makes a key, and keeps its seed.
func (o *signatory) make(file string, kind nkeys.PrefixByte) {
	key, err := nkeys.CreatePair(kind)
	if err == nil {
		o.keys[file] = key
		o.set.operatorFiles()[file][file], err = key.Seed()
	}
	o.note(err)
}

func (o *signatory) note(err error) {
	if o.err == nil {
		o.err = err
	}
}

func (o *signatory) public(file string) string {
	text, err := o.keys[file].PublicKey()
	o.note(err)
	return text
}

// sign returns what a key says.
func (o *signatory) sign(c jwt.Claims, file string) string {
	text, err := c.Encode(o.keys[file])
	o.note(err)
	return text
}

// accounts returns the part of the servers' configuration that is different in operator mode.
func (o *signatory) accounts() string {
	own := jwt.NewOperatorClaims(o.public(OperatorKey))
	own.Name, own.SystemAccount = "argocd-agent", o.public(SystemKey)
	text := fmt.Sprintf(`# Who is who, in operator mode. Made by argocd-agentctl nats init --operator, which does not change it.
# There is nothing secret in it.
operator: %s
system_account: %s
resolver: MEMORY
resolver_preload {
`, o.sign(own, OperatorKey), own.SystemAccount)
	for _, c := range o.claims() {
		text += fmt.Sprintf("  # %s\n  %s: %s\n", c.Name, c.Subject, o.sign(c, OperatorKey))
	}
	return text + fmt.Sprintf(`}
# Who shows nothing by which NATS knows it, as agents do, is asked for of the principal.
default_sentinel: %s
authorization { timeout: 3 }
`, o.sentinel())
}

// claims are what is said of the accounts.
func (o *signatory) claims() []*jwt.AccountClaims {
	account := func(name, file string) *jwt.AccountClaims {
		c := jwt.NewAccountClaims(o.public(file))
		c.Name = name
		return c
	}
	hub, agents, system, nowhere := account("HUB", HubKey), account("AGENTS", AgentsKey), account("SYS", SystemKey), account("NOWHERE", NowhereKey)
	hub.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	hub.Authorization = jwt.ExternalAuthorization{AuthUsers: jwt.StringList{o.public(Creds)}, AllowedAccounts: jwt.StringList{agents.Subject}, XKey: o.public(XKey)}
	hub.SigningKeys.Add(o.public(Issuer))
	agents.SigningKeys.Add(o.public(Issuer))
	agents.Imports.Add(&jwt.Import{Name: anchor, Subject: anchor, Account: nowhere.Subject, Type: jwt.Service})
	nowhere.Exports.Add(&jwt.Export{Name: anchor, Subject: anchor, Type: jwt.Service})
	return []*jwt.AccountClaims{hub, agents, system, nowhere}
}

// sentinel returns the JWT of a user that anybody may be, and that may do nothing.
func (o *signatory) sentinel() string {
	nobody, err := nkeys.CreateUser()
	if err != nil {
		o.note(err)
		return ""
	}
	public, err := nobody.PublicKey()
	o.note(err)
	u := jwt.NewUserClaims(public)
	u.Name, u.BearerToken, u.IssuerAccount = "nobody", true, o.public(HubKey)
	u.Pub.Deny.Add(">")
	u.Sub.Deny.Add(">")
	return o.sign(u, Issuer)
}

// creds makes the creds of a user, whose seed is in that file, of an account.
func (o *signatory) creds(file, account, name string) {
	u := jwt.NewUserClaims(o.public(file))
	u.Name = name
	text, err := jwt.FormatUserConfig(o.sign(u, account), o.set.Principal[file])
	o.note(err)
	o.set.Principal[file] = text
}
