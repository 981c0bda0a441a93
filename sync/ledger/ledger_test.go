package ledger_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/sync/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func letter(key, reason string, at time.Time) ledger.Letter {
	return ledger.Letter{Key: key, Cause: ledger.Refused, Reason: reason, Last: at, Event: json.RawMessage(`{"id":"1"}`)}
}

func open(t *testing.T, file string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(file)
	require.NoError(t, err)
	return l
}

func TestLettersOutliveTheProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "letters.db")
	l := open(t, file)
	b := l.Book("edge-1")
	put(t, b, letter("a", "no", noon))
	put(t, b, letter("b", "no", noon))
	put(t, b, letter("a", "not yet", noon.Add(time.Hour)))
	_, err := ledger.Open(file)
	require.ErrorContains(t, err, "another process has it open")
	require.NoError(t, l.Close())

	l = open(t, file)
	b = l.Book("edge-1")
	all := b.All()
	require.Len(t, all, 2)
	a := all[1]
	require.Equal(t, ledger.Letter{
		ID: a.ID, Key: "a", Cause: ledger.Refused, Reason: "not yet",
		First: noon, Last: noon.Add(time.Hour), Count: 2, Event: json.RawMessage(`{"id":"1"}`),
	}, a)
	got, ok := b.Get(a.ID)
	require.True(t, ok)
	require.Equal(t, a, got)
	there, err := b.Remove(a.ID)
	require.NoError(t, err)
	require.True(t, there)
	there, err = b.Remove(a.ID)
	require.NoError(t, err)
	require.False(t, there)
	require.NoError(t, l.Close())

	l = open(t, file)
	require.Equal(t, 1, l.Book("edge-1").Count())
	require.Equal(t, []string{"edge-1"}, l.Peers())
	require.NoError(t, l.Close())
}

func TestAStateIsNoJournal(t *testing.T) {
	b := ledger.InMemory().Book("edge-1")
	for i := range 10 {
		put(t, b, letter("a", "no", noon.Add(time.Duration(i)*time.Second)))
	}
	require.Equal(t, 1, b.All()[0].Count, "the same is no news")
	require.Equal(t, noon.Add(9*time.Second), b.All()[0].Last)
	require.EqualValues(t, 1, b.Written())
	other := letter("a", "no", noon)
	other.Cause = ledger.Unsent
	put(t, b, other)
	require.Equal(t, 2, b.Count(), "another cause is another letter")
}

func TestForget(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letters.db")
	l := open(t, file)
	used := l.Book("edge-1")
	put(t, used, letter("a", "no", noon))
	put(t, l.Book("edge-2"), letter("a", "no", noon))
	require.NoError(t, l.Forget("edge-1"))
	put(t, used, letter("late", "no", noon)) // it is in nobody's way
	require.NoError(t, l.Forget("nobody"))
	require.NoError(t, l.Close())
	l = open(t, file)
	require.Equal(t, []string{"edge-2"}, l.Peers())
	require.NoError(t, l.Close())
}

func TestClaim(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letters.db")
	for i, before := range []string{"", "hub-0", "hub-1"} {
		l := open(t, file)
		got, err := l.Claim(fmt.Sprint("hub-", i))
		require.NoError(t, err)
		require.Equal(t, before, got)
		require.Empty(t, l.Peers())
		require.NoError(t, l.Close())
	}
	got, err := ledger.InMemory().Claim("hub")
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestBounds(t *testing.T) {
	b := ledger.InMemory().Book("edge-1")
	for i := range ledger.MaxLetters + 10 {
		put(t, b, letter(fmt.Sprint(i), "no", noon.Add(time.Duration(i)*time.Second)))
	}
	require.Equal(t, ledger.MaxLetters, b.Count())
	require.Equal(t, "10", b.All()[0].Key, "the oldest have gone")

	large := letter("large", "no", noon.Add(time.Hour))
	large.Event = json.RawMessage(`"` + strings.Repeat("x", ledger.MaxBytes) + `"`)
	put(t, b, large)
	last := b.All()[b.Count()-1]
	require.Equal(t, "large", last.Key)
	require.Empty(t, last.Event)
}

func TestUnusableFiles(t *testing.T) {
	dir := t.TempDir()
	_, err := ledger.Open(dir)
	require.ErrorContains(t, err, "ledger: open "+dir)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("no database ", 1000)), 0o600))
	_, err = ledger.Open(file)
	require.ErrorContains(t, err, "ledger: open "+file)
	_, err = ledger.Open(filepath.Join(file, "below"))
	require.ErrorContains(t, err, "ledger: open")
}

func put(t *testing.T, b *ledger.Book, l ledger.Letter) {
	t.Helper()
	_, err := b.Put(l)
	require.NoError(t, err)
}
