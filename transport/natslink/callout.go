package natslink

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/zap"
)

// maxDecisions bounds how many connections are decided on at once. Of more than that the servers
// get no answer, and whoever has opened them comes again.
const maxDecisions = 512

// tokenLife is how long a token of this process's own may be shown.
const tokenLife = time.Minute

// A callout answers the servers who may connect to them, and as what: a request says what a
// connection has shown, the answer is the rights of a user, signed by the issuer whom the servers
// have been told to believe.
//
// The connections of this process come as users of two more accounts, in operator mode of one, by a
// token that only who has the issuer's key can sign, so that the servers need not know users of it there.
type callout struct {
	issuer      nkeys.KeyPair
	public      string // of the issuer
	realm       *realm
	curve       nkeys.KeyPair // to which servers encrypt what they ask; nil if they do not
	curvePublic string
	met         atomic.Bool // this process's own connections were asked for

	log       *zap.Logger
	deciding  chan struct{}                            // holds an element for each connection that is decided on
	admit     func(caller) error                       // decides on an agent's
	enter     func(server string, cid uint64) uint64   // gives it a number
	let       func(agent string, id uint64, c *caller) // is told of one that is let in
	forgotten func(id uint64)                          // is told of one that is not
}

// take takes in a request. It does not wait.
func (c *callout) take(m *nats.Msg) {
	select {
	case c.deciding <- struct{}{}:
	default:
		c.log.Warn("too many connect at once; some have to come again")
		return
	}
	go func() {
		defer func() { <-c.deciding }()
		if err := c.answer(m); err != nil {
			c.log.Warn("cannot answer who may connect", zap.Error(err))
		}
	}()
}

func (c *callout) answer(m *nats.Msg) error {
	question, err := c.unseal(m)
	if err != nil {
		return err
	}
	r, err := jwt.DecodeAuthorizationRequestClaims(string(question))
	if err != nil {
		return fmt.Errorf("natslink: read what a server asks: %w", err)
	}
	a := jwt.NewAuthorizationResponseClaims(r.UserNkey)
	a.Audience = r.Server.ID
	if a.Jwt, err = c.decide(r); err != nil {
		a.Error = err.Error()
	}
	text, err := a.Encode(c.issuer)
	if err == nil {
		err = m.Respond([]byte(text))
	}
	return err
}

// unseal returns what a server asks. It is encrypted if there is an xkey in auth_callout, and all of it
// has to be if there is one here: passwords are in it. The answer is not, which has none.
func (c *callout) unseal(m *nats.Msg) ([]byte, error) {
	from := m.Header.Get(server.AuthRequestXKeyHeader)
	switch {
	case from == "" && c.curve == nil:
		return m.Data, nil
	case from == "":
		return nil, fmt.Errorf("natslink: a server asks in clear who may connect: write xkey: %s in its auth_callout, or leave out --nats-callout-xkey", c.curvePublic)
	case c.curve == nil:
		return nil, errors.New("natslink: a server encrypts what it asks: name a file with the seed (SX...) of the xkey in its auth_callout by --nats-callout-xkey, or remove that")
	}
	question, err := c.curve.Open(m.Data, from)
	if err != nil {
		return nil, fmt.Errorf("natslink: read what a server asks, which is encrypted to another xkey than %s: %w", c.curvePublic, err)
	}
	return question, nil
}

// decide returns the signed rights of who has opened a connection.
func (c *callout) decide(r *jwt.AuthorizationRequestClaims) (rights string, err error) {
	if token := r.ConnectOptions.Token; token != "" {
		return c.own(r.UserNkey, token)
	}
	call, err := callerOf(r)
	if err != nil {
		return "", err
	}
	var agent string
	call.enter = func(name string) error {
		if call.kind == server.LEAF && r.ConnectOptions.Name != name {
			// A server closes the leaf node of that name that is connected to it already.
			return fmt.Errorf("the leaf node of agent %s calls itself %.80q", name, r.ConnectOptions.Name)
		}
		agent = name
		rights, err = c.sign(r.UserNkey, name, call)
		return err
	}
	call.id = c.enter(r.Server.ID, r.ClientInformation.ID)
	if err := c.admit(call); err != nil {
		c.forgotten(call.id)
		return "", err
	}
	c.let(agent, call.id, &call)
	return rights, nil
}

// sign returns an agent's rights, for as long as its certificates hold.
func (c *callout) sign(key, agent string, of caller) (string, error) {
	u := jwt.NewUserClaims(key)
	u.Name = agent
	c.realm.place(u, agentsAccount)
	u.Pub.Allow, u.Sub.Allow = names{agent}.rights()
	u.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard}
	if of.kind == server.LEAF {
		u.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeLeafnode}
	}
	for _, cert := range of.tls.PeerCertificates {
		if end := cert.NotAfter.Unix(); u.Expires == 0 || end < u.Expires {
			u.Expires = end
		}
	}
	return u.Encode(c.realm.signer)
}

// Names of this process's own users. No agent has one of them.
const (
	ownPrefix = "principal/"
	ownAgents = ownPrefix + agentsAccount
	ownSystem = ownPrefix + systemAccount
)

// token returns what a connection of this process shows to be let into an account.
func (c *callout) token(account string) string {
	key, err := nkeys.CreateUser()
	if err != nil {
		return "" // which is refused
	}
	public, err := key.PublicKey()
	if err != nil {
		return ""
	}
	u := jwt.NewUserClaims(public)
	u.Name, u.Audience, u.Expires = ownPrefix+account, account, time.Now().Add(tokenLife).Unix()
	text, err := u.Encode(c.issuer)
	if err != nil {
		return ""
	}
	return text
}

// own returns the rights of a connection of this process that has shown such a token.
func (c *callout) own(key, token string) (string, error) {
	shown, err := jwt.DecodeUserClaims(token)
	switch {
	case err != nil:
		return "", errors.New("a token is nothing by which an agent proves its name")
	case shown.Issuer != c.public || time.Now().Unix() > shown.Expires:
		return "", errors.New("a token of another issuer, or of long ago")
	case shown.Audience != agentsAccount && shown.Audience != systemAccount:
		return "", errors.New("a token for no account of the principal's")
	}
	c.met.Store(true)
	u := jwt.NewUserClaims(key)
	u.Name = shown.Name
	c.realm.place(u, shown.Audience)
	return u.Encode(c.realm.signer)
}

// callerOf returns what a server says of who has opened a connection.
func callerOf(r *jwt.AuthorizationRequestClaims) (c caller, err error) {
	kinds := map[string]int{"Leafnode": server.LEAF, "Client": server.CLIENT}
	c.kind = kinds[r.ClientInformation.Kind] // others are refused
	o := &server.ClientOpts{
		Sig: r.ConnectOptions.SignedNonce, Name: r.ConnectOptions.Name,
		Username: r.ConnectOptions.Username, Password: r.ConnectOptions.Password,
	}
	c.login, c.says = loginOf(o), saidBy(o)
	c.from = host(r.ClientInformation.Host)
	c.where = func() net.Addr { return c.from }
	if r.TLS != nil {
		c.tls, err = shownOver(r.TLS)
	}
	return c, err
}

// A host is an address of which the server does not say the port.
type host string

// Network implements net.Addr.
func (host) Network() string { return "tcp" }

// String implements net.Addr.
func (h host) String() string { return net.JoinHostPort(string(h), strconv.Itoa(0)) }

// shownOver returns what a server says of the TLS that it has spoken: the certificates that were
// shown and that it has verified.
func shownOver(t *jwt.ClientTLS) (*tls.ConnectionState, error) {
	s := &tls.ConnectionState{HandshakeComplete: true}
	for _, texts := range t.VerifiedChains {
		var chain []*x509.Certificate
		for _, text := range texts {
			block, _ := pem.Decode([]byte(text))
			if block == nil {
				return nil, errors.New("natslink: a server says a certificate that is none")
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("natslink: a server says a certificate: %w", err)
			}
			chain = append(chain, cert)
		}
		s.VerifiedChains = append(s.VerifiedChains, chain)
	}
	if len(s.VerifiedChains) > 0 && len(s.VerifiedChains[0]) > 0 {
		chain := s.VerifiedChains[0]
		s.PeerCertificates = chain[:max(1, len(chain)-1)] // the last is the server's own, of its CA
	}
	return s, nil
}

// loginOnly reports whether a caller has shown no certificate.
func (c caller) loginOnly() bool { return c.tls == nil || len(c.tls.PeerCertificates) == 0 }
