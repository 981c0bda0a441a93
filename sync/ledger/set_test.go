package ledger_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/ledger"
)

// A Set is there again after a restart, beside the letters.
func TestSetIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letters.db")
	l, err := ledger.Open(path)
	require.NoError(t, err)
	s := l.Set("adopted")
	require.Same(t, s, l.Set("adopted"))
	require.Empty(t, s.All())
	require.NoError(t, s.Clear())
	require.NoError(t, s.Add(map[string]string{"b": "", "a": "one"}))
	require.NoError(t, s.Remove("b", "c"))
	require.NoError(t, s.Add(map[string]string{"d": "", "a": "two"}))
	_, err = l.Book("principal").Put(ledger.Letter{Key: "k", Cause: ledger.Refused})
	require.NoError(t, err)
	require.NoError(t, l.Close())

	l, err = ledger.Open(path)
	require.NoError(t, err)
	s = l.Set("adopted")
	require.Equal(t, []string{"a", "d"}, s.All())
	require.True(t, s.Has("a"))
	require.False(t, s.Has("b"))
	require.Equal(t, "one", s.Note("a"), "the first note stays")
	require.Equal(t, []string{"principal"}, l.Peers(), "a set is no peer")

	// The file is taken away: it is made anew with the next change.
	require.NoError(t, os.Remove(path))
	require.NoError(t, s.Add(map[string]string{"e": ""}))
	require.NoError(t, l.Close())
	l, err = ledger.Open(path)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "d", "e"}, l.Set("adopted").All())
	require.Equal(t, 1, l.Book("principal").Count())
	require.NoError(t, l.Set("adopted").Clear())
	require.NoError(t, l.Close())
	l, err = ledger.Open(path)
	require.NoError(t, err)
	require.Empty(t, l.Set("adopted").All())
	require.NoError(t, l.Close())
}

// What cannot be written is kept all the same, and the error says so.
func TestSetWithoutADisk(t *testing.T) {
	s := ledger.InMemory().Set("adopted")
	require.NoError(t, s.Add(map[string]string{"a": ""}))
	require.True(t, s.Has("a"))

	folder := filepath.Join(t.TempDir(), "folder")
	require.NoError(t, os.WriteFile(folder, nil, 0o600))
	l, err := ledger.Open(filepath.Join(folder, "letters.db"))
	require.Error(t, err)
	require.NoError(t, l.Set("adopted").Clear(), "there is nothing to be written")
	require.ErrorContains(t, l.Set("adopted").Add(map[string]string{"a": ""}), "keep adopted")
	require.True(t, l.Set("adopted").Has("a"))
}
