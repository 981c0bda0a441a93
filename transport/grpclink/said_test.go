package grpclink

import (
	"strings"
	"testing"
	"time"

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
	h.desk.start(time.Now().Add(-settling)) // it has been running for a while
	dial(t, dialerConfig(t, p, "south", address))
	for range 3 { // of which it has been told two for good
		require.Equal(t, "south", <-tries)
	}
	require.Empty(t, met)
	c := dialerConfig(t, p, "north", address)
	c.Says = "mode=managed&\n\xff"
	agent := dial(t, c)
	s := <-met
	require.Equal(t, "north", s.Agent)
	require.Equal(t, c.Says, s.Says)
	require.Contains(t, s.From, "127.0.0.1:")
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	await(t, agent, is(transport.Up))
	await(t, hub, is(transport.Up))

	c.Says = strings.Repeat("a", transport.MaxSaid+1)
	_, err = NewDialer(c)
	require.ErrorContains(t, err, "too long")
}
