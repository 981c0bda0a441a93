package session

import (
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

func TestWhichSideIsToBeUpgraded(t *testing.T) {
	for _, c := range []struct {
		oldest, newest int
		writes         int    // 0 is not at all
		want           string // in the error; "" is no error
		reopen         bool
	}{
		{2, 4, 4, "", false},
		{1, 3, 3, "", true},
		{0, 2, 2, "", true},
		{3, 5, 4, "", true},
		{4, 6, 4, "", true},
		{1, 9, 4, "", false},
		{-1, 1, 0, "upgrade agent-7, to what speaks version 2", false},
		{1, 1, 0, "agent-7 (v9) speaks 1, hub-1 speaks 2 to 4: upgrade agent-7,", false},
		{0, 0, 0, "upgrade agent-7", false},
		{5, 7, 0, "upgrade this side, hub-1, to what speaks version 5", false},
	} {
		v := newVersions(wire.Range{Oldest: 2, Newest: 4})
		reopen, err := v.agree(transport.Presence{Version: "v9", Oldest: c.oldest, Newest: c.newest}, "hub-1", "agent-7")
		require.Equal(t, c.writes, v.writing())
		require.Equal(t, c.reopen, reopen)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, transport.ErrVersion)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "v9")
	}
}

// TestLogsAreOpenedAnewWhenThePeerReadsLess: one that reads more reads what is there.
func TestLogsAreOpenedAnewWhenThePeerReadsLess(t *testing.T) {
	v := newVersions(wire.Range{Oldest: 2, Newest: 4})
	for i, c := range []struct {
		oldest, newest, writes int
		reopen                 bool
	}{
		{2, 4, 4, false}, {1, 3, 3, true}, {1, 3, 3, false}, {2, 4, 4, false}, {1, 3, 3, true}, {0, 2, 2, true}, {3, 5, 4, true}, {1, 1, 4, false},
	} {
		reopen, _ := v.agree(transport.Presence{Oldest: c.oldest, Newest: c.newest}, "hub-1", "agent-7")
		require.Equal(t, c.reopen, reopen, i)
		require.Equal(t, c.writes, v.writing(), i)
	}
}

// TestPeersThatAreAwayAreWrittenToAsBefore: what was agreed on with a peer stands in the log.
func TestPeersThatAreAwayAreWrittenToAsBefore(t *testing.T) {
	log := func(version string) transport.Log {
		e := event.New()
		e.SetExtension("protocolversion", version)
		return transport.Log{Rows: map[string]transport.Message{"$manifest": {Key: "$manifest", Event: e}}}
	}
	ours := wire.Range{Oldest: 2, Newest: 4}
	for _, c := range []struct {
		log  transport.Log
		want int
	}{
		{transport.Log{}, 2}, {log("1"), 2}, {log("2"), 2}, {log("3"), 3}, {log("4"), 4}, {log("5"), 2}, {log("new"), 2},
	} {
		v := newVersions(ours)
		require.Equal(t, ours, v.opened(c.log))
		require.Equal(t, c.want, v.writing())

		v = newVersions(ours)
		_, err := v.agree(transport.Presence{Oldest: 1, Newest: 3}, "hub-1", "agent-7")
		require.NoError(t, err)
		require.Equal(t, wire.Range{Oldest: 2, Newest: 3}, v.opened(c.log))
		require.Equal(t, 3, v.writing(), "what the peer says counts")
	}
}
