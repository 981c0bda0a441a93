package natslink

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// TestAccountsHaveAnchors: nobody is in an account before its anchor, also where many come
// at once, and after the server was made anew.
func TestAccountsHaveAnchors(t *testing.T) {
	c := hubConfig(t, tlstest.NewAuthority(t))
	log, lines := refusals()
	c.Logger = log
	h, _ := startHub(t, c)
	_, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	enter := func() {
		var all errgroup.Group
		for range 20 {
			all.Go(func() error {
				for _, agent := range []string{"north", "south"} {
					u, err := h.user(agent)
					if err != nil {
						return err
					}
					if u.Account.Interest(anchor) != 1 {
						t.Errorf("account of %s has no anchor", agent)
					}
				}
				return nil
			})
		}
		require.NoError(t, all.Wait())
	}
	enter()
	h.node.fail("test")
	awaitLine(t, lines, "the NATS server runs again")
	enter()
}

// TestAnchorsArePassedOn: both ends of a leaf connection have found an anchor that they may
// pass on.
func TestAnchorsArePassedOn(t *testing.T) {
	h, leaf, _, _ := joined(t)
	for _, n := range []*node{h.node, leaf.open.node} {
		z, err := n.current().Leafz(&server.LeafzOptions{Subscriptions: true})
		require.NoError(t, err)
		require.Len(t, z.Leafs, 1)
		require.Contains(t, z.Leafs[0].Subs, anchor, "the other end has not told of it")
	}
	u, err := h.user("north")
	require.NoError(t, err)
	require.Contains(t, u.Permissions.Publish.Allow, anchor, "the hub does not note what the agent may not")
}
