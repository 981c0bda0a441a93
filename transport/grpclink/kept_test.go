package grpclink

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
	"github.com/argocd-fabric/argocd-agent/transport/packetlink"
)

func open(t *testing.T, path string) *kept {
	k, err := openKept(path, "north", &trouble{log: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	return k
}

func records(t *testing.T, k *kept) map[string]packetlink.Record {
	all := map[string]packetlink.Record{}
	require.NoError(t, k.Read(func(r packetlink.Record) error {
		all[r.Key] = r
		return nil
	}))
	return all
}

func TestACopyIsOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", copyFile)
	k := open(t, path)
	require.Empty(t, records(t, k))
	want := map[string]packetlink.Record{
		"a": {Key: "a", Text: []byte("one")},
		"b": {Key: "b", Text: []byte("two"), Tombstone: true},
	}
	k.Put(packetlink.Record{Key: "a", Text: []byte("before")})
	for _, r := range want {
		k.Put(r)
	}
	require.NoError(t, k.Close())
	require.NoError(t, k.Close())
	k = open(t, path)
	require.Equal(t, want, records(t, k))

	// An old tombstone is forgotten.
	old := stored(packetlink.Record{Tombstone: true, Text: []byte("two")}, time.Now().Add(-2*packetlink.TombstoneAge))
	require.NoError(t, k.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(rowsBucket)).Put([]byte("b"), old) }))
	require.NoError(t, k.Close())
	k = open(t, path)
	require.Len(t, records(t, k), 1)
	k.Put(packetlink.Record{Key: "c", Text: []byte("three")})
	require.NoError(t, k.Close())
	k = open(t, path)
	require.NoError(t, k.db.View(func(tx *bbolt.Tx) error {
		require.Nil(t, tx.Bucket([]byte(rowsBucket)).Get([]byte("b")))
		return nil
	}))
}

// TestAFileThatIsNoCopyIsLeftAlone: it is ErrStore, and stays as it is.
func TestAFileThatIsNoCopyIsLeftAlone(t *testing.T) {
	write := func(change func(*bbolt.Tx) error) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			require.NoError(t, open(t, path).Close())
			db, err := bbolt.Open(path, 0o600, nil)
			require.NoError(t, err)
			require.NoError(t, db.Update(change))
			require.NoError(t, db.Close())
		}
	}
	meta := func(key, text string) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket([]byte(metaBucket)).Put([]byte(key), []byte(text)) }
	}
	for want, spoil := range map[string]func(t *testing.T, path string){
		"invalid": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, make([]byte, 1<<16), 0o600))
		},
		"damaged": func(t *testing.T, path string) {
			k := open(t, path)
			for i := range 2000 {
				k.Put(packetlink.Record{Key: string(rune(1000 + i)), Text: make([]byte, 100)})
			}
			require.NoError(t, k.Close())
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			for i := 4 * os.Getpagesize(); i < len(text); i++ {
				text[i] = 0xff
			}
			require.NoError(t, os.WriteFile(path, text, 0o600))
		},
		`version "0"`:      write(meta("version", "0")),
		`agent "south"`:    write(meta("agent", "south")),
		"no rows":          write(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(rowsBucket)) }),
		"another kind":     write(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(metaBucket)) }),
		"is cut off":       write(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(rowsBucket)).Put([]byte("a"), []byte("b")) }),
		"message of \"a\"": write(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(rowsBucket)).Put([]byte("a"), []byte("12345678?")) }),
		"has it open":      func(t *testing.T, path string) { open(t, path) },
	} {
		t.Run(want, func(t *testing.T) {
			c := dialerConfig(t, tlstest.NewAuthority(t), "north", "127.0.0.1:1")
			path := filepath.Join(c.StateDir, copyFile)
			spoil(t, path)
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			d, err := NewDialer(c)
			require.NoError(t, err)
			_, err = d.Dial(t.Context())
			require.ErrorIs(t, err, transport.ErrStore)
			require.ErrorContains(t, err, want)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, string(before) == string(after), "it was changed")
		})
	}
}

// TestACopyThatCannotBeWrittenIsATrouble: which is over once it can.
func TestACopyThatCannotBeWrittenIsATrouble(t *testing.T) {
	path := filepath.Join(t.TempDir(), copyFile)
	k := open(t, path)
	core, logged := observer.New(zap.InfoLevel)
	k.trouble.log = zap.New(core)
	require.NoError(t, k.Close())
	k.waits["a"] = packetlink.Record{Key: "a", Text: []byte("one")}
	err := k.write(time.Now())
	require.ErrorIs(t, err, bolterrors.ErrDatabaseNotOpen)
	require.Len(t, k.waits, 1, "it is tried again")
	since := time.Now()
	k.trouble.begin(err, since)
	k.trouble.begin(err, since.Add(time.Hour))
	require.Equal(t, []transport.Trouble{{What: "copy", Err: err, Since: since}}, k.trouble.list())
	k.db, err = openBolt(path)
	require.NoError(t, err)
	require.NoError(t, k.write(time.Now()))
	require.Empty(t, k.waits)
	require.Contains(t, records(t, k), "a")
	k.trouble.end(since.Add(time.Minute))
	k.trouble.end(since.Add(time.Minute))
	require.Empty(t, k.trouble.list())
	require.Equal(t, []string{"trouble with the store: copy", "trouble with the store has ended: copy"}, messages(logged))
	require.NoError(t, k.db.Close())
}
