package packetlink

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzFile reads any file: it refuses it, or gives records that are read as the same once they
// are written again.
func FuzzFile(f *testing.F) {
	f.Add([]byte("\x03one\x00\x03two"))
	f.Add([]byte("\x03one\x05two"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff")) // a length that is cut off
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		file := &File{Path: path}
		records, err := file.Read()
		if err != nil {
			return
		}
		require.NoError(t, file.Replace(records))
		again, err := file.Read()
		require.NoError(t, err)
		require.Equal(t, records, again)
		require.NoError(t, file.Close())
	})
}
