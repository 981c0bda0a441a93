package natsstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// requireTransient demands that err may go away.
func requireTransient(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	for _, last := range []error{backend.ErrConflict, backend.ErrRefused, backend.ErrRewound} {
		require.NotErrorIs(t, err, last)
	}
}

// TestServerGoesAndComesBack stops the server under a watch: what exists stays shown, what
// is written meanwhile is not written later, and afterwards everything goes on by itself.
func TestServerGoesAndComesBack(t *testing.T) {
	h := startHost(t)
	s, _ := h.store()
	w := h.follow(s)
	require.Empty(t, w.list())
	first := write(t, s, app("a", `"1"`))
	require.Equal(t, &first, w.next().Put)
	for round := range 2 {
		h.stop()
		_, err := s.Write(t.Context(), app("b", `"1"`))
		requireTransient(t, err)
		requireTransient(t, s.Remove(t.Context(), first.Key, first.Version))
		require.Equal(t, map[resource.Key]resource.Object{first.Key: first}, h.follow(s).list())

		h.start()
		users{t, h.client()}.Edit(first.Key, func(o *resource.Object) { o.Parts[resource.Spec] = strconv.Itoa(round) })
		first = *w.next().Put
		first.Parts[resource.Status] = strconv.Itoa(round)
		first = write(t, s, first)
		require.Equal(t, &first, w.next().Put)
		require.Empty(t, w.events)
	}
}

// TestAServerThatIsGoneIsAway stops the server until that is told, and starts it again.
func TestAServerThatIsGoneIsAway(t *testing.T) {
	h := startHost(t)
	said := make(chan string, 100)
	cfg := h.config()
	cfg.Log = zaptest.NewLogger(t, zaptest.WrapOptions(zap.Hooks(func(e zapcore.Entry) error { said <- e.Message; return nil })))
	until := func(message string) {
		for m := range said {
			if m == message {
				return
			}
		}
	}
	s, err := New(cfg)
	require.NoError(t, err)
	h.run(s)
	require.NoError(t, s.mirror.whole(t.Context()))
	before := time.Now()
	h.stop()
	until("the bucket cannot be followed, which is tried again")
	since, why := s.Away()
	require.Error(t, why)
	require.True(t, since.After(before))
	h.start()
	until("the bucket is followed again")
	since, why = s.Away()
	require.NoError(t, why)
	require.Zero(t, since)
}

// TestServerIsNotThereAtFirst starts a store before its server.
func TestServerIsNotThereAtFirst(t *testing.T) {
	h := startHost(t)
	cfg := h.config()
	h.stop()
	s, err := New(cfg)
	require.NoError(t, err)
	_, err = s.Identity(t.Context())
	requireTransient(t, err)
	h.run(s)
	w := h.follow(s)
	h.start()
	require.Empty(t, w.list())
}

// TestBucketIsDeleted takes the bucket away. Nothing is shown as gone; the watch ends, and
// the next one is shown the bucket that is made in its place, under the same identity.
func TestBucketIsDeleted(t *testing.T) {
	h := startHost(t)
	s, _ := h.store()
	identity, err := s.Identity(t.Context())
	require.NoError(t, err)
	for range 2 {
		w := h.follow(s)
		require.Empty(t, w.list())
		a := write(t, s, app("a", `"1"`))
		require.Equal(t, &a, w.next().Put)
		require.NoError(t, h.client().DeleteKeyValue(t.Context(), testBucket))
		require.ErrorIs(t, <-w.ended, backend.ErrRewound)
		require.Empty(t, w.events)

		again := h.follow(s)
		require.Empty(t, again.list())
		a = write(t, s, app("a", `"2"`))
		require.NoError(t, s.Remove(t.Context(), a.Key, a.Version))
		now, err := s.Identity(t.Context())
		require.NoError(t, err)
		require.Equal(t, identity, now)
	}
}

// TestBucketIsMadeAnewByOthers has another one in its place that has come further.
func TestBucketIsMadeAnewByOthers(t *testing.T) {
	h := startHost(t)
	s, _ := h.store()
	write(t, s, app("a", `"1"`))
	w := h.follow(s)
	require.Len(t, w.list(), 1)
	js := h.client()
	require.NoError(t, js.DeleteKeyValue(t.Context(), testBucket))
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: testBucket})
	if err != nil { // the store was faster
		require.ErrorIs(t, err, jetstream.ErrBucketExists)
		kv, err = js.KeyValue(t.Context(), testBucket)
		require.NoError(t, err)
	}
	for range 20 {
		_, err := kv.PutString(t.Context(), "Application.argocd.b", `{"spec":{}}`)
		require.NoError(t, err)
	}
	require.ErrorIs(t, <-w.ended, backend.ErrRewound)
	require.NotContains(t, h.follow(s).list(), appKey("a"))
}

// TestBucketIsPurged removes everything without leaving word: it is gone, and nobody has
// deleted it.
func TestBucketIsPurged(t *testing.T) {
	h := startHost(t)
	s, _ := h.store()
	identity, err := s.Identity(t.Context())
	require.NoError(t, err)
	all := map[resource.Key]string{}
	for i := range 20 {
		o := write(t, s, app(fmt.Sprint("app-", i), `"1"`))
		all[o.Key] = o.UID
	}
	w := h.follow(s)
	require.Len(t, w.list(), len(all))
	stream, err := h.client().Stream(t.Context(), "KV_"+testBucket)
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context()))
	for range len(all) {
		g := w.next().Gone
		require.Equal(t, &backend.Gone{Key: g.Key, UID: all[g.Key]}, g)
		delete(all, g.Key)
	}
	require.Empty(t, all)
	now, err := s.Identity(t.Context())
	require.NoError(t, err)
	require.Equal(t, identity, now)
	a := write(t, s, app("app-0", `"2"`))
	require.Equal(t, &a, w.next().Put)
}

// TestBucketIsRestored puts the files of the server back to an earlier state.
func TestBucketIsRestored(t *testing.T) {
	h := startHost(t)
	s, _ := h.store()
	before := write(t, s, app("a", `"1"`))
	h.stop()
	saved := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, os.CopyFS(saved, os.DirFS(h.options.StoreDir)))
	h.start()
	w := h.follow(s)
	w.list()
	users{t, h.client()}.Edit(before.Key, func(o *resource.Object) { o.Parts[resource.Spec] = `"2"` })
	users{t, h.client()}.Edit(appKey("b"), func(o *resource.Object) { o.Parts[resource.Spec] = `"1"` })
	require.Equal(t, `"2"`, w.next().Put.Parts[resource.Spec])
	require.Equal(t, "b", w.next().Put.Key.Name)
	h.stop()
	require.NoError(t, os.RemoveAll(h.options.StoreDir))
	require.NoError(t, os.CopyFS(h.options.StoreDir, os.DirFS(saved)))
	h.start()
	require.ErrorIs(t, <-w.ended, backend.ErrRewound)
	require.Empty(t, w.events)
	require.Equal(t, map[resource.Key]resource.Object{before.Key: before}, h.follow(s).list())
}

// TestHistoryIsAnother shows that a bucket which was restored, and has come further than it
// had before anybody looked, is known by what its last revision is.
func TestHistoryIsAnother(t *testing.T) {
	h := startHost(t)
	s, stop := h.store()
	write(t, s, app("a", `"1"`))
	stop()
	c, err := connect(h.config(), false)
	require.NoError(t, err)
	defer c.close()
	stream, err := c.bucket.open(t.Context())
	require.NoError(t, err)
	f := follower{bucket: c.bucket, mirror: s.mirror, created: stream.CachedInfo().Created}
	require.NoError(t, f.compare(t.Context(), stream))
	require.NotZero(t, s.mirror.resume(), "it is the same")
	s.mirror.last.at = s.mirror.last.at.Add(-time.Second)
	require.NoError(t, f.compare(t.Context(), stream))
	require.Zero(t, s.mirror.resume())
}

// TestTwoProcessesWriteOneKey lets two stores count in one object, each as fast as it can:
// no step is lost, and none is made twice.
func TestTwoProcessesWriteOneKey(t *testing.T) {
	const steps = 50
	h := startHost(t)
	var g errgroup.Group
	for range 2 {
		s, _ := h.store()
		w := h.follow(s)
		g.Go(func() error {
			var o resource.Object
			for n := 0; n < steps; {
				for more := true; more; { // what was shown last
					select {
					case e := <-w.events:
						if e.Put != nil {
							o = *e.Put
						}
					default:
						more = false
					}
				}
				o.Key = appKey("counter")
				count, _ := strconv.Atoi(o.Parts[resource.Spec])
				o.Parts[resource.Spec] = strconv.Itoa(count + 1)
				switch stored, err := s.Write(t.Context(), o); {
				case err == nil:
					o = stored
					n++
				case errors.Is(err, backend.ErrConflict):
					o = *w.next().Put
				default:
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	s, _ := h.store()
	require.Equal(t, strconv.Itoa(2*steps), h.follow(s).list()[appKey("counter")].Parts[resource.Spec])
}

// TestListUnderWrites lists a bucket whose values are replaced all the time: each list has
// every object.
func TestListUnderWrites(t *testing.T) {
	const apps, writers = 100, 4
	h := startHost(t)
	js := h.client()
	s, _ := h.store()
	var g errgroup.Group
	done := make(chan struct{})
	for i := range writers {
		kv := users{t, js}.kv()
		for n := i; n < apps; n += writers {
			_, err := kv.PutString(t.Context(), fmt.Sprint("Application.argocd.app-", n), `{"metadata":{"uid":"u"},"spec":0}`)
			require.NoError(t, err)
		}
		g.Go(func() error {
			for round := 1; ; round++ {
				for n := i; n < apps; n += writers {
					select {
					case <-done:
						return nil
					default:
					}
					if _, err := kv.PutString(t.Context(), fmt.Sprint("Application.argocd.app-", n), fmt.Sprintf(`{"metadata":{"uid":"u"},"spec":%d}`, round)); err != nil {
						return err
					}
				}
			}
		})
	}
	for range 20 {
		one, stop := h.store()
		require.Len(t, h.follow(one).list(), apps)
		stop()
	}
	close(done)
	require.NoError(t, g.Wait())
	require.Len(t, h.follow(s).list(), apps)
}
