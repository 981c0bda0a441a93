package kubestore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// What can be listed, and not be watched, is not followed: the store is away for as long, and the log has
// said which kind and why. Both heal by themselves.
func TestWhatCannotBeWatchedIsNotFollowed(t *testing.T) {
	const late = "it can be listed, but not be watched, so that changes are seen late: "
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New(`user "agent" cannot watch`))
	for name, c := range map[string]struct {
		watch func(context.Context) (watch.Interface, error)
		until time.Duration // by when it is known
		why   string
	}{
		"no right":        {fails[watch.Interface](forbidden), 5 * time.Second, late + forbidden.Error()},
		"no answer":       {hangs[watch.Interface], 10 * time.Minute, "a watch was not answered within 2m30s"},
		"cut at once":     {ended, 5 * time.Second, late + "the watch was ended at once"},
		"nothing comes":   {silent, 10 * time.Minute, late + "the watch was silent for 2m30s"},
		"nothing to read": {unreadable, 5 * time.Second, late + "Internal error occurred: unable to decode"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, log := observer.New(zapcore.InfoLevel)
				f := newFollower("things", zap.New(core))
				s, began := &Store{follow: map[resource.Kind]*follower{"Thing": f}}, time.Now()
				mended, ctx := make(chan struct{}), t.Context()
				ctx, stop := context.WithCancel(ctx)
				done := make(chan error, 1)
				go func() {
					done <- follow(ctx, f, &entries{all: map[string]entry{}, changed: make(chan struct{}, 1)},
						func(ctx context.Context, _ metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
							return whole(ctx)
						},
						func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
							select {
							case <-mended:
								w := &ticking{events: make(chan watch.Event)}
								w.ended, w.end = context.WithCancel(ctx)
								go w.run()
								return w, nil
							default:
								return c.watch(ctx)
							}
						})
				}()
				<-time.After(c.until)
				synctest.Wait()
				since, why := s.Away()
				require.NotZero(t, since)
				require.Less(t, since.Sub(began), c.until)
				require.EqualError(t, why, "kubestore: follow things: "+c.why)
				require.Equal(t, 1, log.FilterField(zap.String("follows", "things")).Len(), "%v", log.All())
				require.Equal(t, zapcore.WarnLevel, log.All()[0].Level)

				close(mended)
				<-time.After(10 * time.Minute)
				synctest.Wait()
				since, why = s.Away()
				require.Zero(t, since)
				require.NoError(t, why)
				require.Equal(t, 2, log.Len())
				require.Equal(t, "the cluster is followed again", log.All()[1].Message)
				stop()
				require.ErrorIs(t, <-done, context.Canceled)
				synctest.Wait()
			})
		})
	}
}

// A proxy may cut each watch after some time: nothing is lost, for the next begins where that was.
func TestAWatchThatIsCutLaterIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{list: whole, watch: func(ctx context.Context) (watch.Interface, error) {
			w := watch.NewFake()
			time.AfterFunc(5*time.Second, w.Stop)
			return w, nil
		}}
		require.Zero(t, s.play(t, time.Hour).Len())
	})
}

func silent(context.Context) (watch.Interface, error) { return watch.NewFake(), nil }

func ended(context.Context) (watch.Interface, error) {
	w := watch.NewFake()
	w.Stop()
	return w, nil
}

func unreadable(context.Context) (watch.Interface, error) {
	w := watch.NewFakeWithChanSize(1, false)
	w.Error(&apierrors.NewInternalError(errors.New("unable to decode")).ErrStatus)
	return w, nil
}
