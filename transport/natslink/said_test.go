package natslink

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// TestStrangersAreToldOf: who has proven a name, with what it says of itself, until it is
// registered; and nobody who is blocked.
func TestStrangersAreToldOf(t *testing.T) {
	p := tlstest.NewAuthority(t)
	config := hubConfig(t, p)
	met := make(chan transport.Stranger, 1000)
	config.Strangers = func(s transport.Stranger) { met <- s }
	config.Credentials.Block(identity.Blocklist{"south": "it was sold"})
	tries := make(chan string, 1000)
	config.Authenticate = func(c *identity.Credentials, s identity.Shown) (identity.Proof, error) {
		proof, err := identity.SubjectName(c, s)
		tries <- proof.Agent
		return proof, err
	}
	h, _ := startHub(t, config)
	address := addr(t, h)
	h.guard.close() // it has been running for a while, and nobody waits at the door
	dial(t, leafConfig(t, p, "south", address))
	for range 3 { // of which it has been told two for good
		require.Equal(t, "south", <-tries)
	}
	require.Empty(t, met)
	c := leafConfig(t, p, "north", address)
	c.Says = "mode=managed&\n\xff"
	agent := dial(t, c)
	s := <-met
	require.Equal(t, "north", s.Agent)
	require.Equal(t, c.Says, s.Says)
	require.Contains(t, s.From, "127.0.0.1:")
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	up := func(d transport.Delivery) bool { return d.Event == transport.Up }
	await(t, agent, up)
	await(t, hub, up)

	for _, says := range []string{strings.Repeat("a", transport.MaxSaid+1), "a\x00b"} {
		c.Says = says
		_, err = NewLeaf(c)
		require.ErrorContains(t, err, "what the agent says of itself")
	}
}

// TestClientsThatAreStrangersAreToldOf: so it is of agents that run no server.
func TestClientsThatAreStrangersAreToldOf(t *testing.T) {
	p := tlstest.NewAuthority(t)
	config := hubConfig(t, p)
	config.ClientListen = anyPort
	met := make(chan transport.Stranger, 1000)
	config.Strangers = func(s transport.Stranger) { met <- s }
	h, _ := startHub(t, config)
	address := clientAddr(t, h)
	h.guard.close() // it has been running for a while, and nobody waits at the door
	c := clientConfig(t, p, "north", address)
	c.Says = "mode=managed&\n\xff"
	d, err := NewClient(c)
	require.NoError(t, err)
	agent, err := d.Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	s := <-met
	require.Equal(t, "north", s.Agent)
	require.Equal(t, c.Says, s.Says)
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	up := func(d transport.Delivery) bool { return d.Event == transport.Up }
	await(t, agent, up)
	await(t, hub, up)
	for _, says := range []string{strings.Repeat("a", transport.MaxSaid+1), "a\x00b"} {
		c.Says = says
		_, err = NewClient(c)
		require.ErrorContains(t, err, "what the agent says of itself")
	}
}

// What an agent says is apart from what it proves its name by.
func TestWhatIsSaidIsApartFromTheLogin(t *testing.T) {
	answer := func(text string) *server.ClientOpts {
		return &server.ClientOpts{Username: "u", Password: "p", Sig: base64.RawURLEncoding.EncodeToString([]byte(text))}
	}
	foreign := identity.Login{User: "u", Password: "p"}
	for text, want := range map[string]struct {
		login identity.Login
		says  string
	}{
		"":                     {foreign, ""},
		"north:secret":         {identity.Login{User: "north", Password: "secret"}, ""},
		"north:secret\x00mode": {identity.Login{User: "north", Password: "secret"}, "mode"},
		"\x00mode=managed":     {foreign, "mode=managed"},
		"north":                {identity.Login{User: "north"}, ""},
		"\x00" + strings.Repeat("a", transport.MaxSaid+1): {foreign, ""},
	} {
		require.Equal(t, want.login, loginOf(answer(text)), "%q", text)
		require.Equal(t, want.says, saidBy(answer(text)), "%q", text)
	}
	require.Empty(t, saidBy(&server.ClientOpts{Sig: "no base64"}))
	require.Empty(t, saidBy(&server.ClientOpts{Name: "north\x00no base64"}))
	require.Empty(t, saidBy(&server.ClientOpts{Name: named("north", "")}))
	require.Equal(t, "mode", saidBy(&server.ClientOpts{Name: named("north", "mode")}))
}
