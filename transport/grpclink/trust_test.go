package grpclink

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

// cutOff returns a logger, and what is told when it is told that an agent is cut off.
func cutOff(t *testing.T, c *HubConfig) <-chan struct{} {
	log, told := heard(func(e zapcore.Entry) bool { return e.Message == "an agent is cut off" })
	c.Logger = log
	return told
}

// Certificates of both sides are replaced, and with overlap the CA: messages flow on, and each
// connection is by the newest. What is of the old CA is cut off, and not let in any more.
func TestCredentialsAreReplacedWhileMessagesFlow(t *testing.T) {
	was, next := newPKI(t), newPKI(t)
	config := hubConfig(t, was)
	told := cutOff(t, &config)
	h, _ := startHub(t, config)
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	c := dialerConfig(t, was, "north", addr(t, h))
	agent := dial(t, c)
	await(t, agent, is(transport.Up))
	await(t, hub, is(transport.Up))

	replace := func(own *identity.Credentials, of testPKI, trusted ...*pki.CA) {
		t.Helper()
		var pair pki.Pair
		var err error
		if own == config.Credentials {
			pair, err = of.ca.IssueServer("principal", []string{"127.0.0.1"}, pkiOptions())
		} else {
			pair, err = of.ca.IssueAgent("north", pkiOptions())
		}
		require.NoError(t, err)
		changed, err := own.Replace(bundle(pair, trusted...), time.Now())
		require.NoError(t, err)
		require.True(t, changed)
	}
	n := 0
	flow := func() {
		t.Helper()
		n++
		text := string(rune('a' + n))
		require.NoError(t, hub.Send(t.Context(), value("key", text)))
		require.NoError(t, agent.Send(t.Context(), value("key", text)))
		await(t, agent, isValue("key", text))
		await(t, hub, isValue("key", text))
	}
	anew := func(of testPKI, trusted ...*pki.CA) {
		t.Helper()
		replace(c.Credentials, of, trusted...)
		await(t, agent, is(transport.Down))
		await(t, agent, is(transport.Up))
		flow()
	}
	flow()
	replace(config.Credentials, was, was.ca, next.ca)
	flow()
	anew(was, was.ca, next.ca)
	replace(config.Credentials, next, was.ca, next.ca)
	anew(next, was.ca, next.ca)
	replace(config.Credentials, next, next.ca)
	flow()
	require.Empty(t, told)
	replace(config.Credentials, was, was.ca)
	<-told
	await(t, agent, is(transport.Down))
}

// Who is blocked is cut off, told why, and let in once it is blocked no more.
func TestBlockedAgentsAreCutOff(t *testing.T) {
	p := newPKI(t)
	config := hubConfig(t, p)
	told := cutOff(t, &config)
	h, _ := startHub(t, config)
	_, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	c := dialerConfig(t, p, "north", addr(t, h))
	log, refused := heard(func(e zapcore.Entry) bool {
		return e.Message == "the principal refuses this agent: identity: agent north is on the blocklist: it was sold"
	})
	c.Logger = log
	agent := dial(t, c)
	await(t, agent, is(transport.Up))
	config.Credentials.Block(identity.Blocklist{"north": "it was sold"})
	<-told
	<-refused
	await(t, agent, is(transport.Down))
	config.Credentials.Block(nil)
	await(t, agent, is(transport.Up))
}

// A connection ends with the certificate by which it was made.
func TestConnectionEndsWithItsCertificate(t *testing.T) {
	p := newPKI(t)
	config := hubConfig(t, p)
	told := cutOff(t, &config)
	h, _ := startHub(t, config)
	_, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	pair, err := p.ca.IssueAgent("north", pki.Options{Now: time.Now(), Lifetime: 4 * time.Second})
	require.NoError(t, err)
	c := dialerConfig(t, p, "north", addr(t, h))
	c.Credentials = proof(t, pair, p.ca)
	agent := dial(t, c)
	await(t, agent, is(transport.Up))
	<-told
	await(t, agent, is(transport.Down))
}
