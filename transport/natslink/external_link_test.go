//go:build !race

package natslink

import (
	"hash/fnv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// TestExternalLink runs the suite of every transport with agents that connect to a server which is
// not the principal's. It stays when the principal ends. For every other test, by the test's name, it is in
// operator mode: what is said does not depend on how who says it was let in.
func TestExternalLink(t *testing.T) {
	linktest.Run(t, linktest.Adapter{
		New:        func(t *testing.T) linktest.Network { return newExternalNetwork(t) },
		Traits:     adapter.Traits,
		Within:     adapter.Within,
		Reconnects: 10,
		SideBySide: true,
	})
}

// An externalNetwork is a network whose agents connect to such a server.
type externalNetwork struct {
	network
	place *place
}

func newExternalNetwork(t *testing.T) *externalNetwork {
	n := &externalNetwork{network: network{pki: tlstest.NewAuthority(t), dirs: map[string]string{}, leaves: map[string]*Leaf{}}}
	n.place = &place{pki: n.pki}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(t.Name())) // never fails
	if sum.Sum32()%2 == 0 {
		n.place.operator = newOperator(t)
	}
	openPlace(t, n.place)
	n.Listen(n.place.leafs)
	return n
}

func (n *externalNetwork) StartHub(t testing.TB) transport.Hub {
	n.hub, n.stop = startHub(t, n.place.hubConfig(t))
	return n.hub
}

func (n *externalNetwork) StopHub(testing.TB) {
	n.stop()
	n.hub = nil
}

func (n *externalNetwork) Wipe(t testing.TB, agent string, s linktest.Store) {
	name := map[linktest.Store]string{linktest.HubLog: names{agent}.downLog(), linktest.HubCopy: names{agent}.upCopy()}[s]
	if name == "" {
		n.network.Wipe(t, agent, s)
		return
	}
	_, js, err := visitor(t.Context(), *n.place.cluster(t), zap.NewNop())
	require.NoError(t, err)
	defer js.Conn().Close()
	require.NoError(t, js.DeleteStream(t.Context(), name))
}
