package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

func TestWhichSideIsToBeUpgraded(t *testing.T) {
	for _, c := range []struct {
		oldest, newest int
		want           string // in the error; "" is no error
	}{
		{wire.Oldest, wire.Newest, ""},
		{wire.Newest, wire.Newest + 2, ""},
		{wire.Oldest - 2, wire.Oldest, ""},
		{wire.Oldest - 2, wire.Newest + 2, ""},
		{wire.Oldest - 3, wire.Oldest - 1, "upgrade agent-7"},
		{wire.Newest + 1, wire.Newest + 3, "upgrade this side"},
	} {
		err := understood(transport.Presence{Version: "v9", Oldest: c.oldest, Newest: c.newest}, "agent-7")
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, transport.ErrVersion)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "v9")
	}
}
