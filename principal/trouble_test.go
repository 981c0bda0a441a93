package principal

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// A troubled hub has a disk that is full, and an agent whose quota is used up.
type troubled struct{ transport.Hub }

func (troubled) Troubles() []transport.Trouble {
	return []transport.Trouble{{What: "store full", Err: errors.New("no space left")}, {Agent: "two", What: "log quota", Err: errors.New("10 MiB")}}
}

func TestTroublesAreToldOfThoseWhomTheyBefall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(h transport.Hub) transport.Hub { return troubled{h} })
		defer f.end()
		f.roll <- []backend.Agent{{Name: "one"}, {Name: "two"}}
		f.settle()
		agents := f.Agents()
		require.Len(t, agents[0].Troubles, 1)
		require.Equal(t, "store full", agents[0].Troubles[0].What)
		require.Len(t, agents[1].Troubles, 2)
		require.Equal(t, "log quota", agents[1].Troubles[1].What)
		require.ErrorContains(t, f.Ready(), "store full: no space left", "one of all agents, not that of one")
	})
}
