package linktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
)

func given(key string, n int, at uint64) transport.Delivery {
	return transport.Delivery{Event: transport.Value, Message: message(key, n), At: at, Ack: func() {}}
}

// TestSeenJudgesOrder gives a Seen what a Link may deliver, and what it may not.
func TestSeenJudgesOrder(t *testing.T) {
	replayed := transport.Delivery{Event: transport.Replayed}
	lost := transport.Delivery{Event: transport.LogLost}
	up := transport.Delivery{Event: transport.Up}
	down := transport.Delivery{Event: transport.Down}
	for name, c := range map[string]struct {
		broken string // by the last of the deliveries, "" if by none
		all    []transport.Delivery
	}{
		"values":                 {"", []transport.Delivery{given("x", 1, 1), given("y", 2, 2), replayed, given("x", 3, 3)}},
		"skipped":                {"", []transport.Delivery{given("x", 1, 1), given("x", 9, 5)}},
		"repeated":               {"", []transport.Delivery{given("x", 1, 1), given("x", 1, 1)}},
		"repeated late":          {"", []transport.Delivery{given("x", 1, 1), given("x", 2, 2), given("x", 1, 1)}},
		"again in a new copy":    {"", []transport.Delivery{given("x", 1, 1), given("x", 1, 7)}},
		"other keys overtake":    {"", []transport.Delivery{given("x", 2, 2), given("y", 1, 1)}},
		"up and down":            {"", []transport.Delivery{replayed, up, down, up, lost}},
		"overtaken":              {"after number 2", []transport.Delivery{given("x", 2, 1), given("x", 1, 2)}},
		"newer at a lower place": {"after number 1", []transport.Delivery{given("x", 1, 2), given("x", 2, 1)}},
		"two at one place":       {"after number 1", []transport.Delivery{given("x", 1, 1), given("x", 2, 1)}},
		"replayed twice":         {"twice", []transport.Delivery{replayed, replayed}},
		"up twice":               {"twice", []transport.Delivery{replayed, up, up}},
		"down first":             {"without up", []transport.Delivery{replayed, down}},
		"up before replayed":     {"before replayed", []transport.Delivery{up}},
		"lost before replayed":   {"before replayed", []transport.Delivery{lost}},
		"no ack":                 {"no ack", []transport.Delivery{{Event: transport.Value, Message: message("x", 1), At: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := Seen{Values: map[string]Value{}}
			var err error
			for i, d := range c.all {
				require.NoErrorf(t, err, "delivery %d", i)
				err = s.add(d)
			}
			if c.broken == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.broken)
			}
		})
	}
}

func TestSeenKeepsTheNewest(t *testing.T) {
	s := Seen{Values: map[string]Value{}}
	for _, d := range []transport.Delivery{
		given("x", 1, 1), given("x", 3, 4), given("x", 1, 1), given("y", 2, 2),
		{Event: transport.Replayed}, {Event: transport.Up, Presence: transport.Presence{Process: "p"}}, {Event: transport.LogLost},
		given("z", 5, 5),
	} {
		require.NoError(t, s.add(d))
	}
	require.Equal(t, uint64(4), s.Values["x"].At)
	require.Equal(t, 3, count(s.Values["x"].Message))
	require.Equal(t, []int{5, 4, 3, 1, 1}, []int{s.Given, s.Places, s.Kept, s.Ups, s.Lost})
	require.Equal(t, "p", s.Peer.Process)
	require.Empty(t, missing(table{"x": message("x", 3), "w": tombstone("w", 6)}, &s))
	require.Equal(t, []string{"x"}, missing(table{"x": tombstone("x", 7)}, &s))
}
