package natslink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

func fileConfig(dir string) streamConfig {
	c := Common{StoreDir: dir, Quota: 1 << 20, Age: DefaultAge}
	return c.stream("north", partCopy, "IN_north", "fabric.north.down.")
}

func opened(t *testing.T, c streamConfig) (*file, *troubles) {
	all := newTroubles(zap.NewNop(), c.dir)
	f, err := openFile(c, all)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.close()) })
	return f, all
}

// storedAs is a message as it is put into a copy or a log.
func storedAs(t *testing.T, prefix, key, text string) *nats.Msg {
	m := value(key, text)
	if text == "" {
		m.Digest, m.Event.DataEncoded = "", nil
	}
	msg, err := encode(prefix, m)
	require.NoError(t, err)
	return msg
}

func extend(t *testing.T, f *file, texts ...string) (places []uint64) {
	var all []*nats.Msg
	for i := 0; i < len(texts); i += 2 {
		all = append(all, storedAs(t, f.prefix, texts[i], texts[i+1]))
	}
	require.NoError(t, f.extend(t.Context(), all, func(i int, seq uint64) error {
		require.Len(t, places, i)
		places = append(places, seq)
		return nil
	}))
	return places
}

// textsOf returns what is on a shelf, in order.
func textsOf(t *testing.T, s shelf) (texts []string) {
	require.NoError(t, each(t.Context(), s, 1, func(r row) error {
		texts = append(texts, r.tail+"="+string(r.data))
		return nil
	}))
	return texts
}

// TestFileKeepsTheLastOfEachKey: in the order in which they came, also for the next process, and
// places are not given twice.
func TestFileKeepsTheLastOfEachKey(t *testing.T) {
	c := fileConfig(t.TempDir())
	f, _ := opened(t, c)
	require.Zero(t, f.end().Seq)
	require.Equal(t, []uint64{1, 2, 3}, extend(t, f, "a", "1", "b", "1", "a", "2"))
	require.Equal(t, []uint64{4}, extend(t, f, "c", ""))
	want := []string{"b=1", "a=2", "c="}
	require.Equal(t, want, textsOf(t, f))
	epoch := f.end().Epoch
	require.NoError(t, f.close())
	f, _ = opened(t, c)
	require.Equal(t, want, textsOf(t, f))
	require.Equal(t, position{epoch, 4}, f.end())
	require.Equal(t, []uint64{5}, extend(t, f, "b", "2"))
	state, err := f.state(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(3), state.Messages)
	require.Equal(t, uint64(5), state.LastSeq)
}

// TestFileReadsInBatches: of rows, and of bytes.
func TestFileReadsInBatches(t *testing.T) {
	c := fileConfig(t.TempDir())
	c.maxBytes = 64 << 20
	f, _ := opened(t, c)
	var texts []string
	for i := range batchRows + 1 {
		texts = append(texts, fmt.Sprint("key-", i), "text")
	}
	extend(t, f, texts...)
	b, err := f.read(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, b.more)
	require.Len(t, b.rows, batchRows)
	require.Len(t, textsOf(t, f), batchRows+1)
}

// TestFileThatIsFull: it takes all or nothing, and says so for as long as it is so.
func TestFileThatIsFull(t *testing.T) {
	c := fileConfig(t.TempDir())
	c.maxRows = 2
	f, troubles := opened(t, c)
	extend(t, f, "a", "1")
	two := []*nats.Msg{storedAs(t, f.prefix, "b", "1"), storedAs(t, f.prefix, "c", "1")}
	err := f.extend(t.Context(), two, func(int, uint64) error { return errors.New("it was not stored") })
	require.ErrorIs(t, err, transport.ErrFull)
	require.ErrorIs(t, f.usable(), transport.ErrFull)
	require.Equal(t, []string{"a=1"}, textsOf(t, f))
	require.Equal(t, CopyQuota, troubles.list()[0].What)
	require.Equal(t, []uint64{2}, extend(t, f, "b", "1"), "no place was used up")
	require.Empty(t, troubles.list())
	require.NoError(t, f.usable())
}

// TestFileThatIsGone: it is noticed, and begun anew.
func TestFileThatIsGone(t *testing.T) {
	f, _ := opened(t, fileConfig(t.TempDir()))
	extend(t, f, "a", "1")
	lost, err := f.recover(t.Context())
	require.NoError(t, err)
	require.False(t, lost)
	before := f.end().Epoch
	require.NoError(t, os.Remove(f.path))
	whole, err := f.whole(t.Context())
	require.NoError(t, err)
	require.False(t, whole)
	lost, err = f.recover(t.Context())
	require.NoError(t, err)
	require.True(t, lost)
	require.NotEqual(t, before, f.end().Epoch)
	require.Empty(t, textsOf(t, f))
	require.FileExists(t, f.path)
}

// TestFilesThatAreNone: what is another agent's, or no copy, or is in use, is refused and left as
// it is.
func TestFilesThatAreNone(t *testing.T) {
	c := fileConfig(t.TempDir())
	f, _ := opened(t, c)
	other := c
	other.agent = "south"
	_, err := openFile(c, newTroubles(zap.NewNop(), c.dir))
	require.ErrorContains(t, err, "another process has it open")
	require.NoError(t, f.close())
	_, err = openFile(other, newTroubles(zap.NewNop(), c.dir))
	require.ErrorIs(t, err, transport.ErrStore)
	require.ErrorContains(t, err, `it is of agent "north", not "south"`)
	nonsense := fileConfig(t.TempDir())
	path := filepath.Join(nonsense.dir, copyFile)
	require.NoError(t, os.WriteFile(path, make([]byte, 64<<10), 0o600))
	_, err = openFile(nonsense, newTroubles(zap.NewNop(), nonsense.dir))
	require.ErrorIs(t, err, transport.ErrStore)
	require.NoError(t, DiscardCopy(nonsense.dir))
	require.NoFileExists(t, path)
	require.NoError(t, DiscardCopy(nonsense.dir))
}

// TestOldTombstonesAreForgotten: by a copy when it is opened, by a log when it has much to forget.
func TestOldTombstonesAreForgotten(t *testing.T) {
	c := fileConfig(t.TempDir())
	f, _ := opened(t, c)
	gone := []*nats.Msg{storedAs(t, c.prefix, "gone", ""), storedAs(t, c.prefix, "there", "1")}
	_, err := f.write(gone, time.Now().Add(-c.age-time.Minute))
	require.NoError(t, err)
	extend(t, f, "new", "")
	require.NoError(t, f.close())
	f, _ = opened(t, c)
	require.Equal(t, []string{"there=1", "new="}, textsOf(t, f))

	l := newMemory(c, newTroubles(zap.NewNop(), ""))
	for _, m := range append(gone, storedAs(t, c.prefix, "new", "")) {
		require.NoError(t, l.put(context.Background(), "", m))
	}
	l.compact(time.Now().Add(c.age + time.Minute))
	require.Equal(t, []string{"there=1"}, textsOf(t, l))
}

// TestMemoryKeepsTheLastOfEachKey: in order, however often it is replaced, and takes no more than
// it may.
func TestMemoryKeepsTheLastOfEachKey(t *testing.T) {
	c := fileConfig("")
	c.maxRows = 3
	all := newTroubles(zap.NewNop(), "")
	l := newMemory(c, all)
	put := func(key, text string) error { return l.put(t.Context(), "", storedAs(t, c.prefix, key, text)) }
	require.NoError(t, put("a", "1"))
	require.NoError(t, put("b", "1"))
	for i := range 5 * batchRows {
		require.NoError(t, put("a", fmt.Sprint(i)))
	}
	require.Equal(t, []string{"b=1", fmt.Sprint("a=", 5*batchRows-1)}, textsOf(t, l))
	require.LessOrEqual(t, len(l.rows), 2*batchRows)
	require.NoError(t, put("c", "1"))
	require.ErrorIs(t, put("d", "1"), transport.ErrFull)
	require.Equal(t, CopyQuota, all.list()[0].What)
	require.NoError(t, put("c", "2"))
	require.Empty(t, all.list())
	log, err := l.held(t.Context(), func(row) error { return errors.New("nothing is kept") })
	require.NoError(t, err)
	require.False(t, log.Keeps)
	require.Equal(t, l.end().Epoch, log.Epoch)
	require.NotEqual(t, newMemory(c, all).end().Epoch, log.Epoch)
}
