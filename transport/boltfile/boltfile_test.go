package boltfile_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/argocd-fabric/argocd-agent/transport/boltfile"
)

var bucket = []byte("bucket")

// TestAFileThatWasNotBegunWhole: the disk was full when the file was made, and is no more.
func TestAFileThatWasNotBegunWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	db, err := boltfile.Open(path, time.Second)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for pages := range len(whole)/os.Getpagesize() + 1 {
		require.NoError(t, os.WriteFile(path, whole[:pages*os.Getpagesize()], 0o600))
		db, err := boltfile.Open(path, time.Second)
		require.NoError(t, err, "%d pages", pages)
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket(bucket)
			return err
		}))
		require.NoError(t, db.Close())
		db, err = boltfile.Open(path, time.Second)
		require.NoError(t, err)
		require.NoError(t, db.View(func(tx *bbolt.Tx) error {
			require.NotNil(t, tx.Bucket(bucket))
			return nil
		}))
		require.NoError(t, db.Close())
	}
}

// TestWhatIsNotOursStays: a short file that is something else, and one that is in use.
func TestWhatIsNotOursStays(t *testing.T) {
	for _, text := range []string{"", "short", "a text that is somewhat longer, and no more of bbolt's than the others"} {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := boltfile.Open(path, time.Second); text != "" {
			require.Error(t, err)
			is, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, text, string(is))
		}
	}
	path := filepath.Join(t.TempDir(), "file")
	db, err := boltfile.Open(path, time.Second)
	require.NoError(t, err)
	_, err = boltfile.Open(path, time.Millisecond)
	require.EqualError(t, err, "another process has it open")
	require.NoError(t, db.Close())
}
