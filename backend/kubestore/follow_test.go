package kubestore

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A script is what lists and watches are answered.
type script struct {
	list  func(context.Context) (*metav1.PartialObjectMetadataList, error)
	watch func(context.Context) (watch.Interface, error)
	count atomic.Int64 // requests
}

// play follows for some time, and returns the log of what did not go well.
func (s *script) play(t *testing.T, d time.Duration) *observer.ObservedLogs {
	core, log := observer.New(zapcore.InfoLevel)
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	found := &entries{all: map[string]entry{}, changed: make(chan struct{}, 1)}
	err := follow(ctx, newFollower("things", zap.New(core)), found,
		func(ctx context.Context, _ metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			s.count.Add(1)
			return s.list(ctx)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			s.count.Add(1)
			return s.watch(ctx)
		})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	synctest.Wait()
	return log
}

func hangs[T any](ctx context.Context) (T, error) {
	<-ctx.Done()
	var none T
	return none, context.Cause(ctx)
}

func whole(context.Context) (*metav1.PartialObjectMetadataList, error) {
	return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, nil
}

func fails[T any](err error) func(context.Context) (T, error) {
	return func(context.Context) (T, error) {
		var none T
		return none, err
	}
}

// TestFollowingNeitherHammersNorFloodsTheLog follows for an hour what never works.
func TestFollowingNeitherHammersNorFloodsTheLog(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old resource version")
	for name, test := range map[string]struct {
		script   *script
		requests int64 // no more than
	}{
		"all expired":          {&script{list: fails[*metav1.PartialObjectMetadataList](expired), watch: fails[watch.Interface](expired)}, 4000},
		"watches expired":      {&script{list: whole, watch: fails[watch.Interface](expired)}, 4000},
		"all refused":          {&script{list: fails[*metav1.PartialObjectMetadataList](http.ErrHandlerTimeout), watch: fails[watch.Interface](io.EOF)}, 4000},
		"all forbidden":        {&script{list: fails[*metav1.PartialObjectMetadataList](apierrors.NewUnauthorized("no")), watch: fails[watch.Interface](apierrors.NewUnauthorized("no"))}, 4000},
		"nothing answered":     {&script{list: hangs[*metav1.PartialObjectMetadataList], watch: hangs[watch.Interface]}, 60},
		"watches not answered": {&script{list: whole, watch: hangs[watch.Interface]}, 60},
		"watches silent":       {&script{list: whole, watch: silent}, 60},
		"watches over at once": {&script{list: whole, watch: ended}, 4000},
		"watches unreadable":   {&script{list: whole, watch: unreadable}, 4000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := test.script.play(t, time.Hour)
				require.Greater(t, test.script.count.Load(), int64(10), "it is tried again and again")
				require.LessOrEqual(t, test.script.count.Load(), test.requests)
				require.LessOrEqual(t, log.Len(), 1, "%v", log.All())
			})
		})
	}
}

// TestAClusterThatCannotBeFollowedIsAway follows one that refuses everything for a minute.
func TestAClusterThatCannotBeFollowedIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := newFollower("things", zap.NewNop())
		s := &Store{follow: map[resource.Kind]*follower{"Thing": f, "Other": newFollower("others", zap.NewNop())}}
		ctx, stop := context.WithCancel(t.Context())
		failed := 0
		err := follow(ctx, f, &entries{all: map[string]entry{}, changed: make(chan struct{}, 1)},
			func(ctx context.Context, _ metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
				if time.Since(began) >= time.Minute {
					return whole(ctx)
				}
				if since, why := s.Away(); failed > 0 {
					require.Equal(t, began, since)
					require.ErrorContains(t, why, "follow things: ")
					require.ErrorIs(t, why, io.EOF)
				}
				failed++
				return nil, io.EOF
			},
			func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				if time.Since(began) < time.Minute {
					failed++
					return nil, io.EOF
				}
				stop()
				return watch.NewFake(), nil
			})
		require.ErrorIs(t, err, context.Canceled)
		require.Greater(t, failed, many)
		f.reach.Note(time.Now(), nil) // what the watch that ended this would have
		since, why := s.Away()
		require.Zero(t, since)
		require.NoError(t, why)
		synctest.Wait()
	})
}

// A ticking watch shows a bookmark a minute.
type ticking struct {
	events chan watch.Event
	ended  context.Context
	end    context.CancelFunc
}

func (w *ticking) run() {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	at := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "8"}}
	for {
		select {
		case <-tick.C:
		case <-w.ended.Done():
			return
		}
		select {
		case w.events <- watch.Event{Type: watch.Bookmark, Object: at}:
		case <-w.ended.Done():
			return
		}
	}
}

// Stop implements watch.Interface.
func (w *ticking) Stop() { w.end() }

// ResultChan implements watch.Interface.
func (w *ticking) ResultChan() <-chan watch.Event { return w.events }

// TestAWatchThatShowsBookmarksIsLeftAlone lets one run for an hour.
func TestAWatchThatShowsBookmarksIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{list: whole, watch: func(ctx context.Context) (watch.Interface, error) {
			w := &ticking{events: make(chan watch.Event)}
			w.ended, w.end = context.WithCancel(ctx)
			go w.run()
			return w, nil
		}}
		require.Zero(t, s.play(t, time.Hour).Len())
		require.LessOrEqual(t, s.count.Load(), int64(3))
	})
}

// TestDoubtBeginsAWatchAnew but one that has just begun.
func TestDoubtBeginsAWatchAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower("things", zap.NewNop())
		f.doubt(time.Second) // there is none
		begin := func() watch.Interface {
			w, err := f.begin(t.Context(), metav1.ListOptions{}, func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				return watch.NewFake(), nil
			})
			require.NoError(t, err)
			return w
		}
		w := begin()
		f.doubt(time.Second)
		synctest.Wait()
		select {
		case <-w.ResultChan():
			require.Fail(t, "it has just begun")
		default:
		}
		time.Sleep(2 * time.Second)
		f.doubt(time.Second)
		_, open := <-w.ResultChan()
		require.False(t, open)
	})
}
