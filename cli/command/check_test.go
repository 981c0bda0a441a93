package command

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/cli/check"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// advised requires that a stage has failed, and that it is said what to do.
func advised(t *testing.T, err error, seen, advice string) {
	t.Helper()
	var f *check.Failure
	require.ErrorAs(t, err, &f)
	require.ErrorContains(t, f.Err, seen)
	require.Contains(t, f.Advice, advice)
}

func TestCheckOfVersions(t *testing.T) {
	seen, err := common(transport.Presence{Version: "v9", Oldest: 2, Newest: 5}, wire.Range{Oldest: 4, Newest: 7})
	require.NoError(t, err)
	require.Contains(t, seen, "the principal (v9) speaks 2 to 5, this side")
	_, err = common(transport.Presence{Oldest: 1, Newest: 3}, wire.Range{Oldest: 4, Newest: 7})
	advised(t, err, "no common protocol version", "upgrade the principal")
	_, err = common(transport.Presence{Oldest: 8, Newest: 9}, wire.Range{Oldest: 4, Newest: 7})
	advised(t, err, "no common protocol version", "upgrade the agent")
}

// A principal that has a SPIFFE ID and no host is known by that.
func TestCheckKnowsWhoHasNoHost(t *testing.T) {
	k := newKeys(t)
	o := pki.Options{Now: time.Now(), Lifetime: time.Hour, URI: &url.URL{Scheme: "spiffe", Host: "example.com", Path: "/principal"}}
	leaf := func(pair pki.Pair, err error) *x509.Certificate {
		require.NoError(t, err)
		block, _ := pem.Decode(pair.Cert)
		leaf, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		return leaf
	}
	for _, host := range []string{"127.0.0.1", "hub.example.com"} {
		require.False(t, nameless(leaf(k.ca.IssueServer("principal", []string{host}, o))))
	}
	require.True(t, nameless(leaf(k.ca.IssueAgent("principal", o)))) // which is of no host
	o.URI = nil
	require.False(t, nameless(leaf(k.ca.IssueAgent("principal", o))))
}

// keys is a CA with what both sides have of it.
type keys struct {
	ca *pki.CA
	*testing.T
}

func newKeys(t *testing.T) keys {
	ca, err := pki.NewCA("test", pki.Options{Now: time.Now(), Lifetime: time.Hour})
	require.NoError(t, err)
	return keys{ca, t}
}

// principal returns the credentials of a principal with a certificate that is made by o. They
// are taken as of then.
func (k keys) principal(o pki.Options) *identity.Credentials {
	pair, err := k.ca.IssueServer("principal", []string{"127.0.0.1"}, o)
	return k.credentials(pair, err, o.Now)
}

func (k keys) agent() *identity.Credentials {
	pair, err := k.ca.IssueAgent("edge-1", pki.Options{Now: time.Now(), Lifetime: time.Hour})
	return k.credentials(pair, err, time.Now())
}

func (k keys) credentials(pair pki.Pair, err error, now time.Time) *identity.Credentials {
	require.NoError(k, err)
	own, err := identity.NewCredentials(identity.Bundle{
		CA: identity.Text{PEM: k.ca.Pair().Cert}, Cert: identity.Text{PEM: pair.Cert}, Key: identity.Text{PEM: pair.Key},
	}, now)
	require.NoError(k, err)
	return own
}

// serve has f serve each connection to an address of this host until the test ends.
func serve(t *testing.T, f func(net.Conn)) approach {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { require.NoError(t, l.Close()); <-ended })
	return approach{way: way{address: l.Addr().String()}, flag: "--server-address"}
}

// Handshakes that fail on this side, with real listeners; e2e/scripts has those of a principal.
func TestCheckOfTLS(t *testing.T) {
	k := newKeys(t)
	mine := k.agent()
	expired := k.principal(pki.Options{Now: time.Now().Add(-time.Minute), Lifetime: time.Minute}).Server()
	_, err := serve(t, func(c net.Conn) { _ = tls.Server(c, expired).HandshakeContext(t.Context()) }).handshake(t.Context(), mine.Client("127.0.0.1"))
	advised(t, err, "expired", "the principal's certificate is not valid now")
	_, err = serve(t, func(net.Conn) {}).handshake(t.Context(), mine.Client("127.0.0.1"))
	advised(t, err, "", "nothing between ends TLS")

	good := k.principal(pki.Options{Now: time.Now(), Lifetime: time.Hour}).Server()
	conn, err := serve(t, func(c net.Conn) {
		server := tls.Server(c, good)
		if server.HandshakeContext(t.Context()) == nil {
			_, _ = server.Write([]byte{0}) // as a principal does
		}
	}).handshake(t.Context(), mine.Client("127.0.0.1"))
	require.NoError(t, err)
	require.Contains(t, shown(conn), "TLS 1.3; certificate of CN=principal by CN=test, until ")
	require.NoError(t, accepted(t.Context(), conn))
	require.NoError(t, conn.Close())
}

// A principal that says nothing before it is spoken to has taken the certificate.
func TestASilentPrincipalIsWaitedForABriefTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer func() { require.NoError(t, errors.Join(a.Close(), b.Close())) }()
		began := time.Now()
		require.NoError(t, accepted(t.Context(), a))
		require.Equal(t, quietly, time.Since(began))
	})
}

// The first sync is whole once as many rows have come as the principal says that there are.
func TestCheckOfTheFirstSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memlink.New(memlink.Config{})
		hub := net.Hub(transport.Presence{Process: "p", Version: "v1", Oldest: 1, Newest: 1})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- hub.Run(ctx) }()
		defer func() { stop(); require.ErrorIs(t, <-ended, context.Canceled) }()
		link, err := hub.Link(t.Context(), "edge-1")
		require.NoError(t, err)
		defer func() { require.NoError(t, link.Close()) }()
		say := func(m engine.Message) {
			sent, err := wire.Encode(m, wire.Envelope{ID: rand.Text(), Source: "hub", Time: time.Now()})
			require.NoError(t, err)
			require.NoError(t, link.Send(t.Context(), sent))
		}
		app := func(name string) resource.Key {
			return resource.Key{Kind: resource.Application, Name: name}
		}

		open := func(*identity.Credentials) (transport.Dialer, error) {
			return net.Agent("edge-1", transport.Presence{Process: "a"}), nil
		}
		m, err := meet(t.Context(), open, nil, &witness{})
		require.NoError(t, err)
		defer m.close()
		seen, err := m.version()
		require.NoError(t, err)
		require.Contains(t, seen, "the principal (v1) speaks 1")

		soon := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			t.Cleanup(cancel)
			return ctx
		}
		say(engine.Message{Key: app("a"), Body: engine.Record{UID: "1", Parts: resource.Parts{resource.Spec: "{}"}}})
		_, err = m.sync(soon())
		advised(t, err, "1 object came, and the principal has not said how many there are", "argocd-agentctl status")
		say(engine.Message{Key: engine.ManifestKey, Body: engine.Manifest{Epoch: "e", By: "hub", Count: 2}})
		_, err = m.sync(soon())
		advised(t, err, "1 of 2 objects came", "argocd-agentctl status")
		say(engine.Message{Key: app("b"), Body: engine.Record{UID: "2", Parts: resource.Parts{resource.Spec: "{}"}}})
		seen, err = m.sync(soon())
		require.NoError(t, err)
		require.Equal(t, "what the principal has for this agent has come: 2 objects", seen)
	})
}

func TestWhatTheLogSaysIsSeen(t *testing.T) {
	w := &witness{}
	advised(t, w.explain(errors.New("late")), "the principal does not answer: late", "see its log")
	told := make(chan string, 1)
	w.tell(func(line string) { told <- line })
	log := quiet(zap.New(w), map[string]string{"refused": "register it"})
	log.Info("nothing")
	log.Warn("there is no connection")
	advised(t, w.explain(nil), "there is no connection", "see the principal's log")
	require.Empty(t, told)
	log.Error("refused", zap.Error(errors.New("unknown")))
	require.Equal(t, "refused: unknown", <-told)
	advised(t, w.explain(nil), "refused: unknown", "register it")
}

func TestMetricsAreRead(t *testing.T) {
	page := "# HELP x y\nargocd_agent_connected{agent=\"edge-1\"} 1\nargocd_agent_in_step{agent=\"edge-1\"} 0\n"
	for series, want := range map[string]bool{`argocd_agent_connected{agent="edge-1"}`: true, `argocd_agent_in_step{agent="edge-1"}`: false} {
		got, err := isOne(strings.NewReader(page), series)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := isOne(strings.NewReader(page), `argocd_agent_connected{agent="edge-2"}`)
	require.ErrorContains(t, err, "there is no argocd_agent_connected")
}

func TestRegisteredAgentsAreToBeServed(t *testing.T) {
	registered := []backend.Agent{{Name: "a"}, {Name: "b"}}
	served := []admin.Agent{{Name: "a"}, {Name: "b"}, {Name: "c", Error: "nobody asks"}}
	require.NoError(t, unserved(registered, admin.Agents{Agents: served}))
	advised(t, unserved(registered, admin.Agents{Agents: served[:1]}), "agent b is registered, and the principal does not serve it", "looks in the same place")
	served[0].Error = "its log is lost"
	advised(t, unserved(registered, admin.Agents{Agents: served}), "agent a: its log is lost", "argocd-agentctl agent inspect a")
}

func TestWhoIsAwayAndWhoIsBehind(t *testing.T) {
	there := admin.Agent{Name: "a", Connected: true, Hub: admin.Side{InStep: true}, Spoke: &admin.Side{InStep: true}}
	late, silent, gone := there, there, there
	late.Name, late.Spoke = "late", &admin.Side{}
	silent.Name, silent.Spoke = "silent", nil
	gone.Name, gone.Connected = "gone", false
	away, behind := standing(admin.Agents{Agents: []admin.Agent{there, late, silent, gone}})
	require.Equal(t, []string{"gone"}, away)
	require.Equal(t, []string{"late", "silent"}, behind)
}
