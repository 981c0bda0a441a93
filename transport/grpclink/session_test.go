package grpclink

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
	"github.com/argocd-fabric/argocd-agent/transport/packetlink"
)

// joined returns the address of a hub and its Link to an agent, which is that of a Dialer.
func joined(t testing.TB, p tlstest.Authority, c HubConfig) (address string, hub transport.Link) {
	h, _ := startHub(t, c)
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	return addr(t, h), hub
}

func TestTheNewestSessionHasTheLink(t *testing.T) {
	p := tlstest.NewAuthority(t)
	config := hubConfig(t, p)
	core, said := observer.New(zap.WarnLevel)
	config.Logger = zap.New(core)
	address, hub := joined(t, p, config)
	first := dialerConfig(t, p, "north", address)
	core, told := observer.New(zap.WarnLevel)
	first.Logger = zap.New(core)
	older := dial(t, first)
	await(t, older, is(transport.Up))
	require.NoError(t, older.Send(t.Context(), value("of", "the older")))
	await(t, hub, isValue("of", "the older"))

	newer := dial(t, dialerConfig(t, p, "north", address))
	await(t, newer, is(transport.Up))
	await(t, older, is(transport.Down))
	require.NoError(t, older.Close())
	require.NoError(t, hub.Send(t.Context(), value("down", "1")))
	require.NoError(t, newer.Send(t.Context(), value("up", "1")))
	await(t, newer, isValue("down", "1"))
	await(t, hub, isValue("up", "1"))

	require.Equal(t, []string{"refused a connection"}, messages(said))
	require.Contains(t, said.All()[0].ContextMap()["error"], "another session of this agent has begun, from 127.0.0.1:")
	for _, m := range messages(told) { // none if it was closed first
		require.Contains(t, m, "the principal refuses this agent: another session of this agent has begun")
	}
}

func messages(o *observer.ObservedLogs) (all []string) {
	for _, e := range o.All() {
		all = append(all, e.Message)
	}
	return all
}

// heard returns a log, and what is closed once it has been told of something.
func heard(ok func(zapcore.Entry) bool) (*zap.Logger, <-chan struct{}) {
	done := make(chan struct{})
	over := sync.OnceFunc(func() { close(done) })
	observed, _ := observer.New(zap.DebugLevel)
	return zap.New(zapcore.RegisterHooks(observed, func(e zapcore.Entry) error {
		if ok(e) {
			over()
		}
		return nil
	})), done
}

// TestWhoIsNotRegisteredIsToldSoOnce: on both sides, however often it tries.
func TestWhoIsNotRegisteredIsToldSoOnce(t *testing.T) {
	p := tlstest.NewAuthority(t)
	config := hubConfig(t, p)
	core, said := observer.New(zap.WarnLevel)
	config.Logger = zap.New(core)
	tries := make(chan struct{}, 100)
	config.Authenticate = func(c *identity.Credentials, s identity.Shown) (identity.Proof, error) {
		tries <- struct{}{}
		return identity.SubjectName(c, s)
	}
	h, _ := startHub(t, config)
	address := addr(t, h)
	h.desk.start(time.Now().Add(-settling)) // it has been running for a while
	c := dialerConfig(t, p, "north", address)
	core, told := observer.New(zap.WarnLevel)
	c.Logger = zap.New(core)
	agent := dial(t, c)
	for range 4 {
		<-tries
	}
	require.Equal(t, []string{"refused a connection"}, messages(said))
	require.Equal(t, "agent is not registered", said.All()[0].ContextMap()["error"])
	require.Equal(t, "north", said.All()[0].ContextMap()["agent"])
	require.Equal(t, []string{"the principal refuses this agent: agent is not registered"}, messages(told))
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	await(t, agent, is(transport.Up))
	await(t, hub, is(transport.Up))
}

// TestAHubThatHasJustStartedRefusesNobodyForGood: it may not know yet which agents there are.
func TestAHubThatHasJustStartedRefusesNobodyForGood(t *testing.T) {
	h, err := NewHub(hubConfig(t, tlstest.NewAuthority(t)))
	require.NoError(t, err)
	d := h.desk
	start := time.Now()
	d.start(start)
	early, late := d.admit(visitor{agent: "north"}, "", start.Add(settling-1)), d.admit(visitor{agent: "north"}, "", start.Add(settling))
	require.Equal(t, comeAgain, retryAfter(early))
	require.Zero(t, retryAfter(late))
	require.ErrorContains(t, late, transport.ErrUnknown.Error())
}

// TestACertificateOfAnotherCAIsRefused: with one line on the principal's side.
func TestACertificateOfAnotherCAIsRefused(t *testing.T) {
	p, other := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	config := hubConfig(t, p)
	core, said := observer.New(zap.WarnLevel)
	refused := make(chan struct{}, 100)
	config.Logger = zap.New(zapcore.RegisterHooks(core, func(zapcore.Entry) error { refused <- struct{}{}; return nil }))
	address, _ := joined(t, p, config)
	c := dialerConfig(t, p, "north", address)
	c.Credentials = tlstest.Credentials(t, other.AgentPair(t, "north"), p, other)
	log, told := heard(func(e zapcore.Entry) bool {
		return strings.Contains(e.Message, "there is no connection to the principal: ") && strings.Contains(e.Message, "remote error: tls: ")
	})
	c.Logger = log
	agent := dial(t, c)
	<-told
	<-refused
	require.NoError(t, agent.Close())
	require.Equal(t, []string{"refused a connection"}, messages(said))
	require.Contains(t, said.All()[0].ContextMap()["error"], "certificate signed by unknown authority")
}

// TestAHerdIsLetInInTurn: who is too many is told when to come again, and does.
func TestAHerdIsLetInInTurn(t *testing.T) {
	p := tlstest.NewAuthority(t)
	config := hubConfig(t, p)
	config.Admissions = 2
	h, _ := startHub(t, config)
	address := addr(t, h)
	var crowd []transport.Link
	for i := range 6 {
		name := fmt.Sprintf("north-%d", i)
		_, err := h.Link(t.Context(), name)
		require.NoError(t, err)
		crowd = append(crowd, dial(t, dialerConfig(t, p, name, address)))
	}
	began := time.Now()
	for _, l := range crowd {
		await(t, l, is(transport.Up))
	}
	require.Greater(t, time.Since(began), time.Second, "nobody had to wait")
}

func TestConfigIsChecked(t *testing.T) {
	p := tlstest.NewAuthority(t)
	for want, change := range map[string]func(*HubConfig){
		"no logger":              func(c *HubConfig) { c.Logger = nil },
		"heartbeat must be":      func(c *HubConfig) { c.Heartbeat = time.Hour },
		"credentials":            func(c *HubConfig) { c.Credentials = nil },
		"missing port":           func(c *HubConfig) { c.Listen = "here" },
		"authentication":         func(c *HubConfig) { c.Authenticate = nil },
		"admissions in a second": func(c *HubConfig) { c.Admissions = -1 },
		"there may be 1 to":      func(c *HubConfig) { c.Limits.Rows = packetlink.MaxRows + 1 },
		"the largest message":    func(c *HubConfig) { c.Limits.Bytes = 1 },
	} {
		c := hubConfig(t, p)
		change(&c)
		_, err := NewHub(c)
		require.ErrorContains(t, err, want)
	}
	for want, change := range map[string]func(*DialerConfig){
		"no logger":          func(c *DialerConfig) { c.Logger = nil },
		"DNS-1123":           func(c *DialerConfig) { c.Agent = "North" },
		"missing port":       func(c *DialerConfig) { c.Connect = "there" },
		"no state directory": func(c *DialerConfig) { c.StateDir = "" },
		"credentials":        func(c *DialerConfig) { c.Credentials = nil },
		"is of agent":        func(c *DialerConfig) { c.Agent = "south" },
	} {
		c := dialerConfig(t, p, "north", "127.0.0.1:1")
		change(&c)
		_, err := NewDialer(c)
		require.ErrorContains(t, err, want)
	}
}
