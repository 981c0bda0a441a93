package ledger_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/argocd-fabric/argocd-agent/sync/ledger"
)

// FuzzLetters opens a file in which anything stands where letters are: what can be read is
// shown and removed as any other, and the file takes letters.
func FuzzLetters(f *testing.F) {
	text, err := json.Marshal(letter("a", "no", noon))
	require.NoError(f, err)
	f.Add("edge-1", "0123456789ab", text)
	f.Add("edge-1", "x", []byte(`{"id":"x","event":[1,"\ud800"],"first":"2026-03-01T12:00:00Z"}`))
	f.Add("$x", "x", []byte("null"))
	f.Fuzz(func(t *testing.T, peer, id string, text []byte) {
		file := filepath.Join(t.TempDir(), "letters.db")
		require.NoError(t, open(t, file).Close())
		db, err := bbolt.Open(file, 0o600, nil)
		require.NoError(t, err)
		put := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(peer))
			if err != nil {
				return err
			}
			return b.Put([]byte(id), text)
		})
		require.NoError(t, db.Close())
		if put != nil {
			return // no file holds that
		}
		l, err := ledger.Open(file)
		require.NoError(t, err)
		b := l.Book(peer)
		for _, old := range b.All() {
			_, err := json.Marshal(old)
			require.NoError(t, err)
			there, err := b.Remove(old.ID)
			require.NoError(t, err)
			require.True(t, there)
		}
		_, err = b.Put(letter("a", "no", noon))
		require.NoError(t, err)
		require.Equal(t, 1, b.Count())
		require.NoError(t, l.Close())
	})
}
