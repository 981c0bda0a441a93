package identity_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

// bundle is a pair, and the certificates of CAs that are trusted.
func bundle(pair pki.Pair, trusted ...*pki.CA) identity.Bundle {
	b := identity.Bundle{CA: identity.Text{Where: "ca"}, Cert: identity.Text{Where: "cert", PEM: pair.Cert}, Key: identity.Text{Where: "key", PEM: pair.Key}}
	for _, ca := range trusted {
		b.CA.PEM = append(b.CA.PEM, ca.Pair().Cert...)
	}
	return b
}

// An office issues certificates for an hour.
type office struct {
	*testing.T
	options pki.Options
}

func (o office) ca() *pki.CA {
	ca, err := pki.NewCA("test", o.options)
	require.NoError(o, err)
	return ca
}

func (o office) agent(ca *pki.CA, name string) pki.Pair {
	p, err := ca.IssueAgent(name, o.options)
	require.NoError(o, err)
	return p
}

func (o office) server(ca *pki.CA) pki.Pair {
	p, err := ca.IssueServer("principal", []string{"hub.example.com", "127.0.0.1"}, o.options)
	require.NoError(o, err)
	return p
}

func (o office) credentials(b identity.Bundle) *identity.Credentials {
	c, err := identity.NewCredentials(b, o.options.Now)
	require.NoError(o, err)
	return c
}

func newOffice(t *testing.T) office {
	return office{t, pki.Options{Now: time.Now(), Lifetime: time.Hour}}
}

// shake has a client and a server meet, and returns what each of them says of it, and by
// what the client has proved its name.
func shake(t *testing.T, client, server *tls.Config) (proof identity.Proof, ofClient, ofServer error) {
	at, err := net.Listen("tcp", "127.0.0.1:0") // with room for what is said last
	require.NoError(t, err)
	defer func() { require.NoError(t, at.Close()) }()
	there, err := net.Dial("tcp", at.Addr().String())
	require.NoError(t, err)
	here, err := at.Accept()
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		c := tls.Client(there, client)
		err := c.Handshake()
		if err == nil { // only then it hears whether it is taken
			_, err = c.Read(make([]byte, 1))
		}
		_ = there.Close()
		ended <- err
	}()
	s := tls.Server(here, server)
	if ofServer = s.Handshake(); ofServer == nil {
		_, ofServer = s.Write([]byte{1})
		state := s.ConnectionState()
		proof, _ = identity.SubjectName(nil, identity.Shown{TLS: &state}) // the zero one if it shows none
	}
	require.NoError(t, here.Close())
	return proof, <-ended, ofServer
}

// Each connection is made by what the Credentials are when it is made.
func TestConnectionsAreMadeByTheNewestCredentials(t *testing.T) {
	o := newOffice(t)
	was, is := o.ca(), o.ca()
	hub, edge := o.credentials(bundle(o.server(was), was)), o.credentials(bundle(o.agent(was, "edge"), was))
	server, client := hub.Server(), edge.Client("hub.example.com")
	meet := func() (error, error) {
		_, c, s := shake(t, client, server)
		return c, s
	}
	c, s := meet()
	require.NoError(t, errors.Join(c, s))

	replace := func(c *identity.Credentials, b identity.Bundle) {
		changed, told := false, c.Changed()
		changed, err := c.Replace(b, o.options.Now)
		require.NoError(t, err)
		require.True(t, changed)
		<-told
		changed, err = c.Replace(b, o.options.Now)
		require.NoError(t, err)
		require.False(t, changed)
	}
	replace(hub, bundle(o.server(is), is))
	c, _ = meet()
	require.ErrorContains(t, c, "certificate signed by unknown authority")
	replace(edge, bundle(o.agent(was, "edge"), was, is))
	_, s = meet()
	require.ErrorContains(t, s, "certificate signed by unknown authority")
	replace(edge, bundle(o.agent(is, "edge"), is))
	shown, c, s := shake(t, client, server)
	require.NoError(t, errors.Join(c, s))

	require.NoError(t, hub.Trusts(shown, o.options.Now))
	require.ErrorContains(t, hub.Trusts(shown, o.options.Now.Add(2*time.Hour)), "expired")
	replace(hub, bundle(o.server(was), was))
	require.ErrorContains(t, hub.Trusts(shown, o.options.Now), "unknown authority")
	require.ErrorContains(t, hub.Trusts(identity.Proof{Agent: "edge"}, o.options.Now), "nothing proves")
}

// Who is blocked, by name or by certificate, is trusted no more, and told why; without it all
// is as before.
func TestBlocklist(t *testing.T) {
	o := newOffice(t)
	ca := o.ca()
	hub, edge := o.credentials(bundle(o.server(ca), ca)), o.credentials(bundle(o.agent(ca, "edge"), ca))
	shown, c, s := shake(t, edge.Client("127.0.0.1"), hub.Server())
	require.NoError(t, errors.Join(c, s))
	print := identity.Fingerprint(shown.Certificates[0])
	block := func(reasons map[string]string) error {
		b, err := identity.NewBlocklist(reasons)
		require.NoError(t, err)
		changed := hub.Changed()
		hub.Block(b)
		<-changed
		hub.Block(b)
		return hub.Trusts(shown, o.options.Now)
	}
	require.EqualError(t, block(map[string]string{"edge": "stolen"}), "identity: agent edge is on the blocklist: stolen")
	require.NoError(t, block(map[string]string{"other": "", strings.Repeat("0", 64): ""}))
	colons := strings.ToUpper(regexp.MustCompile("..").ReplaceAllString(print, "$0:"))
	require.EqualError(t, block(map[string]string{strings.TrimSuffix(colons, ":"): ""}), "identity: certificate "+print+" is on the blocklist")
	require.NoError(t, block(nil))
	for _, who := range []string{"", "Edge", "default", print[:62], print + "00", print[:63] + "x"} {
		_, err := identity.NewBlocklist(map[string]string{who: ""})
		require.ErrorContains(t, err, "neither a SHA-256 fingerprint")
	}
}

// A client trusts nobody but who has a server's certificate for the name that it has dialled.
func TestClientsKnowWhomTheyMeet(t *testing.T) {
	o := newOffice(t)
	ca := o.ca()
	edge := o.credentials(bundle(o.agent(ca, "edge"), ca))
	hub := o.credentials(bundle(o.server(ca), ca)).Server()
	for host, want := range map[string]string{
		"hub.example.com": "", "127.0.0.1": "",
		"other.example.com": "not other.example.com", "127.0.0.2": "not 127.0.0.2",
	} {
		_, c, _ := shake(t, edge.Client(host), hub)
		if want == "" {
			require.NoError(t, c, host)
		} else {
			require.ErrorContains(t, c, want)
		}
	}
	_, c, _ := shake(t, edge.Client("edge"), o.credentials(bundle(o.agent(ca, "edge"), ca)).Server())
	require.Error(t, c, "an agent is no principal")
}

func TestCredentialsStayThoseOfOneName(t *testing.T) {
	o := newOffice(t)
	ca := o.ca()
	c := o.credentials(bundle(o.agent(ca, "edge"), ca))
	_, err := c.Replace(bundle(o.agent(ca, "other"), ca), o.options.Now)
	require.EqualError(t, err, `identity: certificate cert is of "other", and not of "edge" as before: restart to use it`)
	require.Equal(t, "edge", c.Name())
	require.WithinDuration(t, o.options.Now.Add(time.Hour), c.Expiry(), time.Second)
}

// What cannot be used is told once, if it stays so, and nothing changes; a certificate that
// nobody replaces is warned of.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		ca := o.ca()
		first, second := bundle(o.agent(ca, "edge"), ca), bundle(o.agent(ca, "edge"), ca)
		o.options.Lifetime = 2 * time.Hour
		third := bundle(o.agent(ca, "edge"), o.ca(), ca)
		c := o.credentials(first)
		core, logged := observer.New(zap.InfoLevel)
		type state struct {
			identity.Bundle
			broken error
		}
		var there atomic.Pointer[state]
		there.Store(&state{Bundle: first})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- identity.Renewal{
				Credentials: c, Every: 10 * time.Second, Log: zap.New(core),
				Read: func(context.Context) (identity.Bundle, error) { s := there.Load(); return s.Bundle, s.broken },
			}.Run(ctx)
		}()
		pass := func(d time.Duration, b identity.Bundle, err error) (lines []string) {
			there.Store(&state{b, err})
			<-time.After(d) // virtual
			synctest.Wait()
			for _, l := range logged.TakeAll() {
				lines = append(lines, l.Message)
			}
			return lines
		}
		changed := c.Changed()
		require.Empty(t, pass(time.Minute, first, nil))
		require.Empty(t, pass(10*time.Second, first, errors.New("not whole")), "it may just be written")
		require.Len(t, pass(10*time.Minute, first, errors.New("gone")), 1)
		require.Empty(t, pass(10*time.Second, first, nil))
		require.Len(t, pass(10*time.Minute, identity.Bundle{}, nil), 1)
		select {
		case <-changed:
			require.Fail(t, "nothing that can be used has come")
		default:
		}
		require.Equal(t, []string{"certificate and CA are replaced"}, pass(10*time.Second, second, nil))
		<-changed
		require.Equal(t, []string{"the certificate expires soon, and has not been replaced"}, pass(35*time.Minute, second, nil))
		require.Equal(t, []string{"certificate and CA are replaced"}, pass(5*time.Minute, third, nil))
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}
