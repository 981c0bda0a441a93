package natslink

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

// A rotation is a hub and an agent whose certificates are of two CAs, one after the other.
type rotation struct {
	*testing.T
	old, new   *pki.CA
	hub, agent *identity.Credentials
	guard      *guard
}

// replace gives credentials another certificate, of a CA, and CAs to trust.
func (r rotation) replace(c *identity.Credentials, of *pki.CA, trusted ...*pki.CA) {
	issue := func() (pki.Pair, error) { return of.IssueAgent("north", pkiOptions()) }
	if c == r.hub {
		issue = func() (pki.Pair, error) { return of.IssueServer("principal", []string{"127.0.0.1"}, pkiOptions()) }
	}
	pair, err := issue()
	require.NoError(r, err)
	changed, err := c.Replace(bundle(pair, trusted...), time.Now())
	require.NoError(r, err)
	require.True(r, changed)
}

// serial returns the number of the certificate by which the agent is connected, "" if it is not.
func (r rotation) serial() string {
	r.guard.mu.Lock()
	defer r.guard.mu.Unlock()
	if s, ok := r.guard.sessions["north"]; ok {
		return s.shown[0].SerialNumber.String()
	}
	return ""
}

// Certificates of both sides are replaced, then the CA, with overlap, then the old CA goes,
// while messages flow both ways: none is lost, and each connection is by the newest. What is
// of the old CA is cut off then, and not let in any more.
func TestCredentialsAreReplacedWhileMessagesFlow(t *testing.T) {
	r := rotation{T: t}
	var err error
	for _, ca := range []**pki.CA{&r.old, &r.new} {
		*ca, err = pki.NewCA("test", pkiOptions())
		require.NoError(t, err)
	}
	pair, err := r.old.IssueServer("principal", []string{"127.0.0.1"}, pkiOptions())
	require.NoError(t, err)
	r.hub = credentials(t, pair, r.old)
	pair, err = r.old.IssueAgent("north", pkiOptions())
	require.NoError(t, err)
	r.agent = credentials(t, pair, r.old)

	log, lines := refusals()
	c := HubConfig{Common: quick(t, t.TempDir()), Listen: "127.0.0.1:0", Credentials: r.hub, Authenticate: identity.SubjectName}
	c.Logger = log
	h, _ := startHub(t, c)
	r.guard = h.guard
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	agent := dial(t, LeafConfig{Common: quick(t, t.TempDir()), Agent: "north", Connect: addr(t, h), Credentials: r.agent})
	await(t, hub, isUp)
	await(t, agent, isUp)

	n := 0
	flow := func() {
		t.Helper()
		n++
		text := fmt.Sprint("value ", n)
		var both sync.WaitGroup
		both.Go(func() { await(t, agent, isValue("key", text)) })
		require.NoError(t, hub.Send(t.Context(), value("key", text)))
		require.NoError(t, agent.Send(t.Context(), value("key", text)))
		await(t, hub, isValue("key", text))
		both.Wait()
	}
	anew := func(act func()) {
		t.Helper()
		before := r.serial()
		act()
		for now := ""; now == "" || now == before; now = r.serial() {
			flow()
		}
	}
	flow()
	anew(func() { r.replace(r.agent, r.old, r.old) })
	r.replace(r.hub, r.old, r.old)
	flow()
	r.replace(r.hub, r.old, r.old, r.new)
	anew(func() { r.replace(r.agent, r.old, r.old, r.new) })
	r.replace(r.hub, r.new, r.old, r.new)
	flow()
	anew(func() { r.replace(r.agent, r.new, r.old, r.new) })
	r.replace(r.hub, r.new, r.new)
	r.replace(r.agent, r.new, r.new)
	flow()
	for len(lines) > 0 {
		require.NotContains(t, <-lines, "is cut off")
	}

	r.replace(r.agent, r.old, r.old, r.new)
	awaitLine(t, lines, "TLS leafnode handshake error")
	require.NoError(t, hub.Send(t.Context(), value("key", "meanwhile")))
	r.replace(r.agent, r.new, r.new)
	await(t, agent, isValue("key", "meanwhile"))
	r.replace(r.hub, r.old, r.old)
	awaitLine(t, lines, "an agent is cut off", "north", "certificate signed by unknown authority")
	require.Empty(t, r.serial())
}

// A connection ends with the certificate by which it was made.
func TestConnectionEndsWithItsCertificate(t *testing.T) {
	p := newPKI(t)
	c := hubConfig(t, p)
	log, lines := refusals()
	c.Logger = log
	h, _ := startHub(t, c)
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	pair, err := p.ca.IssueAgent("north", pki.Options{Now: time.Now(), Lifetime: 5 * time.Second})
	require.NoError(t, err)
	lc := leafConfig(t, p, "north", addr(t, h))
	lc.Credentials = credentials(t, pair, p.ca)
	dial(t, lc)
	await(t, hub, isUp)
	await(t, hub, func(d transport.Delivery) bool { return d.Event == transport.Down })
	awaitLine(t, lines, "an agent is cut off", "north", "certificate has expired")
}

func isUp(d transport.Delivery) bool { return d.Event == transport.Up }

// Who is blocked is cut off, told of, and not let in, until it is blocked no more; other
// agents notice nothing.
func TestBlockedAgentsAreCutOff(t *testing.T) {
	p := newPKI(t)
	c := hubConfig(t, p)
	log, lines := refusals()
	c.Logger = log
	h, _ := startHub(t, c)
	open := func(agent string) transport.Link {
		hub, err := h.Link(t.Context(), agent)
		require.NoError(t, err)
		dial(t, leafConfig(t, p, agent, addr(t, h)))
		await(t, hub, isUp)
		return hub
	}
	north, south := open("north"), open("south")
	h.guard.mu.Lock()
	other, print := h.guard.sessions["south"].id, identity.Fingerprint(h.guard.sessions["north"].shown[0])
	h.guard.mu.Unlock()
	for _, who := range []string{"north", print} {
		c.Credentials.Block(identity.Blocklist{who: "it was sold"})
		awaitLine(t, lines, "an agent is cut off", `"agent":"north"`, "is on the blocklist: it was sold")
		await(t, north, func(d transport.Delivery) bool { return d.Event == transport.Down })
		awaitLine(t, lines, "refused a connection", `"agent":"north"`, "is on the blocklist: it was sold")
		c.Credentials.Block(nil)
		await(t, north, isUp)
		h.guard.mu.Lock()
		clear(h.guard.refused) // what the log is told once a minute
		h.guard.mu.Unlock()
	}
	require.NoError(t, south.Send(t.Context(), value("key", "text")))
	require.Equal(t, other, h.guard.session("south"), "it has been connected all the time")
}
