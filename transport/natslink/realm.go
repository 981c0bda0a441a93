package natslink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/zap"
)

// An OperatorConfig is what a Hub has for servers in operator mode: they know accounts by their keys, and
// believe of an account what its JWT says, which an operator has signed, and of a user what is signed
// by its account.
type OperatorConfig struct {
	// User are the creds of the principal's user in the account HUB, and System those of one in the
	// system account. They are read whenever a connection is made.
	User, System func() (Creds, error)
	// Agents is the seed of the account AGENTS, or of one of its signing keys; "" is that Issuer, which
	// is of the account HUB, is a signing key of AGENTS as well.
	Agents string
}

// A realm is how servers say who is in which account, and are told it.
//
//	                      users in the configuration     operator mode
//	an account is         a name                         a public key; which is AGENTS's, HUB's JWT says
//	HUB is entered        by a key, or a certificate     by creds
//	SYS is entered        as who is asked says: us       by creds
//	rights are of         who is named as the issuer     a signing key of AGENTS
//	and for an account    as the audience                as the issuer's account
//	who shows nothing     is asked for                   is taken for default_sentinel, and asked for
type realm struct {
	user, system nats.Option
	agents       string        // what the servers call the account AGENTS
	signer       nkeys.KeyPair // of the rights of who is let in
	place        func(u *jwt.UserClaims, account string)
	steps        []step // of connecting, one after the other
}

// A step is one of those by which a Hub comes to stand on servers elsewhere.
type step func(context.Context) error

// blaming returns the step s with an error that says what it comes of.
func (s step) blaming(why func(context.Context, error) error) step {
	return func(ctx context.Context) error {
		err := s(ctx)
		if err != nil {
			return why(ctx, err)
		}
		return nil
	}
}

// configured returns the realm of servers that have their users in their configuration.
func (k *cluster) configured(issuer nkeys.KeyPair) (r realm, err error) {
	r = realm{
		user: func(*nats.Options) error { return nil }, // its certificate says who it is
		// This process lets itself in.
		system: k.asToken(systemAccount), agents: agentsAccount, signer: issuer,
		place: func(u *jwt.UserClaims, account string) { u.Audience = account },
		steps: []step{k.store, k.hear, step(k.command).blaming(k.unanswered), k.checkServers, k.attend, k.recall, step(k.wire).blaming(k.unanswered)},
	}
	if k.to.User == "" {
		return r, nil
	}
	key, public, err := keyOf(k.to.User, nkeys.PrefixByteUser)
	if err != nil {
		return r, fmt.Errorf("seed of the user: %w", err)
	}
	r.user = func(o *nats.Options) error {
		o.Nkey, o.SignatureCB = public, key.Sign
		return nil
	}
	return r, nil
}

// operated returns the realm of servers in operator mode.
func (k *cluster) operated(issuer nkeys.KeyPair) (r realm, err error) {
	o := k.to.Operator
	if o.User == nil || o.System == nil {
		return r, errors.New("creds of a user of the account " + hubAccount + " and of one of the system account are needed")
	}
	r = realm{
		user: asCreds(o.User), system: asCreds(o.System), signer: issuer,
		place: func(u *jwt.UserClaims, _ string) { u.IssuerAccount = k.realm.agents },
		steps: []step{k.store, k.command, k.checkAccounts, k.checkServers, k.hear, k.attend, k.recall, step(k.wire).blaming(k.unplaced), k.checkAgents},
	}
	if o.Agents != "" {
		if r.signer, _, err = keyOf(o.Agents, nkeys.PrefixByteAccount); err != nil {
			return r, fmt.Errorf("seed of the account %s: %w", agentsAccount, err)
		}
	}
	return r, nil
}

// reenterEvery is how often it is looked for other creds in the place of those that there were.
const reenterEvery = 10 * time.Second

// reenter has connections made anew whenever the creds by which they were made have been replaced, one
// after the other and before the servers would close all of them at once, until ctx is done.
func (k *cluster) reenter(ctx context.Context) {
	if k.to.Operator == nil {
		return
	}
	var before [2]string
	for {
		for i, of := range []struct {
			read  func() (Creds, error)
			conns []*nats.Conn
		}{{k.to.Operator.User, k.hub}, {k.to.Operator.System, []*nats.Conn{k.sys.Load()}}} {
			c, err := of.read()
			if err != nil {
				k.config.Logger.Warn("there are no creds to connect to the NATS servers with once the connections end", zap.Error(err))
				continue
			}
			if before[i] == c.token {
				continue
			}
			if !c.Expires.IsZero() {
				k.config.Logger.Info("creds to connect to the NATS servers with are to be replaced in time", zap.String("user", c.User), zap.Time("expire", c.Expires))
			}
			if before[i] != "" {
				k.again(ctx, of.conns)
			}
			before[i] = c.token
		}
		if sleep(ctx, k.reenterEvery) != nil {
			return
		}
	}
}

// again makes connections anew, each once the one before is there.
func (k *cluster) again(ctx context.Context, conns []*nats.Conn) {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	for _, nc := range conns {
		made := nc.StatusChanged(nats.CONNECTED)
		if err := nc.ForceReconnect(); err != nil {
			continue // it is closed
		}
		select {
		case <-made:
		case <-ctx.Done():
		}
		nc.RemoveStatusListener(made)
	}
}

// claims returns the JWT of an account, as the servers have it, nil if none has it now.
func (k *cluster) claims(ctx context.Context, account string) (*jwt.AccountClaims, error) {
	all, err := ping[server.Accountz](ctx, k.sys.Load(), "ACCOUNTZ", server.AccountzOptions{Account: account})
	if err != nil {
		return nil, err
	}
	var last *jwt.AccountClaims
	for _, s := range all {
		if a := s.Data.Account; a != nil && a.Claim != nil && (last == nil || a.Claim.IssuedAt > last.IssuedAt) {
			last = a.Claim
		}
	}
	return last, nil
}

// wrongAccount says what is wrong with an account's JWT, and what to do.
func wrongAccount(name, key, what, advice string) error {
	return fmt.Errorf("natslink: account %s (%s) %s: %s", name, key, what, advice)
}

// checkAccounts finds out, of what the JWT of the account HUB says, which account is AGENTS, and whether
// the servers will ask this process and believe it.
func (k *cluster) checkAccounts(ctx context.Context) error {
	c, err := k.to.Operator.User()
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, storeAnswer)
	defer cancel()
	if _, err := k.sys.Load().RequestWithContext(asking, "$SYS.REQ.SERVER.PING.STATSZ", nil); errors.Is(err, nats.ErrNoResponders) {
		return errors.New("natslink: the user of --nats-system-creds is not in the system account of the NATS servers: it must be, to list and close connections (nsc add user --account SYS)")
	}
	hub, err := k.claims(ctx, c.Account)
	if err != nil {
		return err
	}
	if hub == nil {
		return wrongAccount(hubAccount, c.Account, "is not known to the servers by a JWT", "they must be in operator mode, and all of one resolver")
	}
	if err := checkCallout(hub, c.User); err != nil {
		return err
	}
	if err := admits(hubAccount, hub); err != nil { // who is asked for is in this account meanwhile
		return err
	}
	if !signs(hub, k.answer.public) {
		return wrongAccount(hubAccount, hub.Subject, "is not signed for by "+k.answer.public, "make the key of --nats-callout-seed one of its signing keys, without a role: nsc edit account --name "+hubAccount+" --sk "+k.answer.public)
	}
	switch curve := hub.Authorization.XKey; {
	case curve != "" && k.answer.curvePublic == "":
		return wrongAccount(hubAccount, hub.Subject, "has what is asked encrypted to "+curve, "name a file with the seed of that (SX...) by --nats-callout-xkey")
	case curve != k.answer.curvePublic:
		return wrongAccount(hubAccount, hub.Subject, fmt.Sprintf("has what is asked encrypted to %q, and --nats-callout-xkey is of %s", curve, k.answer.curvePublic), "make them the same")
	}
	k.realm.agents = hub.Authorization.AllowedAccounts[0]
	return nil
}

// checkCallout finds out whether servers ask user, of the account HUB, who may connect, for the account AGENTS.
func checkCallout(hub *jwt.AccountClaims, user string) error {
	external := hub.Authorization
	edit := fmt.Sprintf("nsc edit authcallout --account %s --auth-user %s --allowed-account <the key of %s>", hubAccount, user, agentsAccount)
	switch {
	case !external.IsEnabled():
		return wrongAccount(hubAccount, hub.Subject, "has nobody asked who may connect (authorization in its JWT)", edit)
	case !slices.Contains(external.AuthUsers, user):
		return wrongAccount(hubAccount, hub.Subject, "has others asked who may connect than the user of --nats-creds", edit)
	case len(external.AllowedAccounts) != 1 || external.AllowedAccounts[0] == jwt.AnyAccount || external.AllowedAccounts[0] == hub.Subject:
		return wrongAccount(hubAccount, hub.Subject, fmt.Sprintf("lets whom the principal lets in into %q", []string(external.AllowedAccounts)), "that must be one account, in which nobody else is: "+edit)
	}
	return nil
}

// admits finds out whether agents may connect to an account, of either kind.
func admits(name string, a *jwt.AccountClaims) error {
	if a.Limits.Conn == 0 || a.Limits.LeafNodeConn == 0 {
		return wrongAccount(name, a.Subject, fmt.Sprintf("admits %d connections, and %d of leaf nodes", a.Limits.Conn, a.Limits.LeafNodeConn),
			"let as many in as there are agents, and 10 more: nsc edit account --name "+name+" --conns -1 --leaf-conns -1")
	}
	return nil
}

// signs reports whether what a key signs is of an account. What is signed by a key with a role has the
// rights of the role, and not those that we give.
func signs(a *jwt.AccountClaims, key string) bool {
	role, has := a.SigningKeys[key]
	return key == a.Subject || has && role == nil
}

// barred says why this process is not let into the account HUB, as far as the servers tell who may ask.
func (k *cluster) barred(ctx context.Context, err error) error {
	if k.to.Operator == nil || !errors.Is(err, nats.ErrAuthorization) && !isLate(err) || k.command(ctx) != nil {
		return err
	}
	if why := k.checkAccounts(ctx); why != nil {
		return why
	}
	return err
}

// checkAgents finds out whether the account that agents are let into leads nowhere.
func (k *cluster) checkAgents(ctx context.Context) error {
	a, err := k.claims(ctx, k.realm.agents)
	if err != nil || a == nil {
		return err
	}
	if err := admits(agentsAccount, a); err != nil {
		return err
	}
	public, err := k.realm.signer.PublicKey()
	if err != nil {
		return err
	}
	if !signs(a, public) {
		return wrongAccount(agentsAccount, a.Subject, "is not signed for by "+public, "make the key of --nats-agents-seed (or of --nats-callout-seed, if that is left out) one of its signing keys, without a role: nsc edit account --name "+agentsAccount+" --sk "+public)
	}
	for _, im := range a.Imports {
		if im.Subject != anchor {
			return wrongAccount(agentsAccount, a.Subject, fmt.Sprintf("imports %q", im.Subject), "it must import nothing but "+anchor+", or agents reach what is not theirs")
		}
	}
	switch {
	case len(a.Exports) > 0:
		return wrongAccount(agentsAccount, a.Subject, fmt.Sprintf("exports %q", a.Exports[0].Subject), "it must export nothing, or others reach agents")
	case len(a.Mappings) > 0:
		return wrongAccount(agentsAccount, a.Subject, "has mappings", "it must have none")
	case a.Limits.IsJSEnabled():
		return wrongAccount(agentsAccount, a.Subject, "has JetStream", "it must have none, or agents make streams: nsc edit account --name "+agentsAccount+" --js-disable")
	}
	return nil
}

// unplaced says why this process is not let into the account of agents, in operator mode.
func (k *cluster) unplaced(ctx context.Context, err error) error {
	hub := ""
	if c, e := k.to.Operator.User(); e == nil {
		hub = c.Account
	}
	if !k.answer.met.Load() {
		return fmt.Errorf("natslink: the NATS servers do not ask this principal who an agent is: write default_sentinel in their configuration, the JWT of a bearer user of account %s (%s) with no rights; argocd-agentctl nats init --operator makes one: %w", hubAccount, hub, err)
	}
	a, e := k.claims(ctx, k.realm.agents)
	if e == nil && a == nil {
		e = wrongAccount(agentsAccount, k.realm.agents, "is not known to the servers", "push its JWT to their resolver, or name another by --allowed-account of "+hubAccount)
	}
	if e == nil {
		e = k.checkAgents(ctx)
	}
	if e != nil {
		return e
	}
	return fmt.Errorf("natslink: the NATS servers do not let into account %s (%s) whom this principal lets in; their log says why: %w", agentsAccount, a.Subject, err)
}
