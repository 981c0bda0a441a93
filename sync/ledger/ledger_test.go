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

// open opens a file that is fine, when the one who had it has closed it.
func open(t *testing.T, file string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(file)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
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
	require.ErrorIs(t, err, ledger.ErrInUse)
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

// A file that cannot be used stops nobody: letters are kept in memory until it can.
func TestUnusableFiles(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	file := filepath.Join(blocked, "letters.db")
	l, err := ledger.Open(file)
	require.ErrorContains(t, err, "ledger: open "+file)
	_, err = l.Book("edge-1").Put(letter("a", "no", noon))
	require.ErrorContains(t, err, "ledger: keep letters of edge-1")
	require.Equal(t, 1, l.Book("edge-1").Count())

	require.NoError(t, os.Remove(blocked))
	put(t, l.Book("edge-1"), letter("b", "no", noon))
	require.NoError(t, l.Close())
	require.Equal(t, 2, open(t, file).Book("edge-1").Count(), "what was kept in memory meanwhile is there")
}

// A damaged file is put aside, however it is damaged.
func TestDamagedFiles(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, file string){
		"nonsense": func(t *testing.T, file string) {
			require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("no database ", 1000)), 0o600))
		},
		"short": func(t *testing.T, file string) { require.NoError(t, os.Truncate(file, 5000)) },
		"zeros within": func(t *testing.T, file string) {
			f, err := os.OpenFile(file, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(make([]byte, 6*4096), 2*4096)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "letters.db")
			l := open(t, file)
			put(t, l.Book("edge-1"), letter("a", "no", noon))
			require.NoError(t, l.Close())
			damage(t, file)
			l, err := ledger.Open(file)
			require.ErrorContains(t, err, "was damaged: it is "+file+".damaged-")
			put(t, l.Book("edge-1"), letter("b", "no", noon))
			require.NoError(t, l.Close())
			require.Equal(t, 1, open(t, file).Book("edge-1").Count())
		})
	}
}

// What happens to a file that is open harms nobody, and what was known is written again.
func TestFilesThatAreTakenAway(t *testing.T) {
	for name, take := range map[string]func(file string) error{
		"removed":         os.Remove,
		"with its folder": func(file string) error { return os.RemoveAll(filepath.Dir(file)) },
		"shortened":       func(file string) error { return os.Truncate(file, 5000) },
		"emptied":         func(file string) error { return os.Truncate(file, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "state", "letters.db")
			l := open(t, file)
			_, err := l.Claim("hub-1")
			require.NoError(t, err)
			put(t, l.Book("edge-1"), letter("a", "no", noon))
			put(t, l.Book("edge-2"), letter("a", "no", noon))
			require.NoError(t, take(file))
			put(t, l.Book("edge-1"), letter("b", "no", noon))
			require.NoError(t, l.Close())
			l = open(t, file)
			require.Equal(t, 2, l.Book("edge-1").Count())
			require.Equal(t, 1, l.Book("edge-2").Count())
			before, err := l.Claim("hub-1")
			require.NoError(t, err)
			require.Equal(t, "hub-1", before)
			require.NoError(t, l.Close())
		})
	}
}

func put(t *testing.T, b *ledger.Book, l ledger.Letter) {
	t.Helper()
	_, err := b.Put(l)
	require.NoError(t, err)
}

// What is remembered of a peer is there again, until it is forgotten or the peer is.
func TestMemoryOutlivesTheProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letters.db")
	l := open(t, file)
	for _, peer := range []string{"edge-1", "edge-2", "edge-3"} {
		require.Empty(t, l.Book(peer).Remembered())
		require.NoError(t, l.Book(peer).Remember([]byte("of "+peer)))
	}
	require.NoError(t, l.Book("edge-1").Remember([]byte("more of edge-1")))
	require.NoError(t, l.Book("edge-2").Remember(nil))
	require.NoError(t, l.Forget("edge-3"))
	require.NoError(t, os.Rename(file, file+".gone")) // it is made anew, with all that is known
	require.NoError(t, l.Book("edge-4").Remember([]byte("of edge-4")))
	require.NoError(t, l.Close())

	l = open(t, file)
	require.Equal(t, "more of edge-1", string(l.Book("edge-1").Remembered()))
	require.Empty(t, l.Book("edge-2").Remembered())
	require.Empty(t, l.Book("edge-3").Remembered())
	require.Equal(t, "of edge-4", string(l.Book("edge-4").Remembered()))
	require.Empty(t, l.Peers(), "of none is there a letter")
}
