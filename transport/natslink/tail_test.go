package natslink

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// seqsOf returns the places of rows.
func seqsOf(rows []row) (seqs []uint64) {
	for _, r := range rows {
		seqs = append(seqs, r.seq)
	}
	return seqs
}

func TestTail(t *testing.T) {
	var l tail
	put := func(key string, seqs ...uint64) {
		for _, seq := range seqs {
			l.add("e", row{seq: seq, tail: key})
		}
	}
	from := func(seq, end uint64) []uint64 {
		rows, ok := l.from(seq, position{"e", end})
		if !ok {
			return nil
		}
		return seqsOf(rows)
	}
	require.Empty(t, from(1, 1), "nothing is known")
	put("a", 4)
	put("b", 6)
	require.Empty(t, from(4, 6), "5 was stored, and is not confirmed yet")
	put("a", 5)
	put("b", 6)
	require.Equal(t, []uint64{5, 6}, from(4, 6), "4 was replaced")
	require.Equal(t, []uint64{6}, from(6, 5), "it is there although the log does not say so yet")
	require.Empty(t, from(3, 6), "3 is of a process before")
	require.Empty(t, from(4, 7), "7 is not known")
	rows, ok := l.from(4, position{"another", 6})
	require.False(t, ok, rows)

	l.had(position{"another", 6})
	l.had(position{"e", 4})
	require.Empty(t, from(4, 6))
	require.Equal(t, []uint64{5, 6}, from(5, 6))
	l.had(position{"e", 9})
	require.Empty(t, from(6, 6))
	require.Zero(t, l.bytes)

	put("a", 10)
	l.add("another", row{seq: 1, tail: "a"})
	rows, ok = l.from(1, position{"another", 1})
	require.True(t, ok)
	require.Equal(t, []uint64{1}, seqsOf(rows))
}

func TestTailIsBounded(t *testing.T) {
	var l tail
	for seq := range uint64(3 * tailRows) {
		l.add("e", row{seq: seq, tail: "a"})
	}
	require.Len(t, l.rows, tailRows)
	require.EqualValues(t, 2*tailRows, l.rows[0].seq)
	l.add("e", row{seq: 3 * tailRows, tail: "a", data: make([]byte, tailBytes)})
	require.Empty(t, l.rows)
	require.Zero(t, l.bytes)
}

// TestTheEndOfALogIsWhatTheServerHas: what is said at once is what a process after this one would say.
func TestTheEndOfALogIsWhatTheServerHas(t *testing.T) {
	_, leaf, _, agent := joined(t)
	c := leaf.config.stream("other", partLog, "OUT_other", "fabric.other.up.")
	s, err := newStream(t.Context(), leaf.open.node.vault, logOf(agent).js, c)
	require.NoError(t, err)
	for _, key := range []string{"a", "b", "a"} {
		m, err := encode(s.prefix, value(key, "text"))
		require.NoError(t, err)
		require.NoError(t, s.put(t.Context(), "sender", m))
	}
	end := s.end()
	said, ok := s.tail.from(end.Seq-2, end)
	require.True(t, ok)
	b, err := s.upToDate(t.Context(), end.Seq-2)
	require.NoError(t, err)
	require.Len(t, said, 2)
	require.Equal(t, b.rows, said)
}
