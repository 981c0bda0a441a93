package kubestore

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// A connection is what every client of one API server shares.
type connection struct {
	rest *rest.Config
	http *http.Client
}

// connect prepares clients. It does not reach out.
func connect(cfg *rest.Config, log *zap.Logger) (connection, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandlerWithContext = warnings{log}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return connection{}, fmt.Errorf("kubestore: %w", err)
	}
	return connection{cfg, client}, nil
}

// logTo returns a context whose requests log to log.
func logTo(ctx context.Context, log *zap.Logger) context.Context {
	return klog.NewContext(ctx, zapr.NewLogger(log))
}

// warnings of the API server are for those who look for them.
type warnings struct{ log *zap.Logger }

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w warnings) HandleWarningHeaderWithContext(_ context.Context, code int, _ string, text string) {
	if code == 299 { // the one that the API server uses
		w.log.Debug("the API server warns", zap.String("text", text))
	}
}

// follow keeps store equal to what list and watch give until ctx is done, and returns
// the cause. It begins anew, after at most 5 s, whenever either fails.
//
// A list is never of an older state than the API server has when it is asked, and neither
// does it ask for one that is as new as the last: a cluster that was restored from a
// snapshot is younger than what it has shown. Nor is it watched from there on, for a watch
// from a version that the cluster has not come to yet is silent until it has.
func follow[L runtime.Object](
	ctx context.Context, name string, log *zap.Logger, store cache.ReflectorStore,
	list func(context.Context, metav1.ListOptions) (L, error), watcher cache.WatchFuncWithContext,
) error {
	logger := zapr.NewLogger(log)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.ResourceVersion = ""
			l, err := list(ctx, o)
			if err != nil {
				return nil, err
			}
			return l, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil && *o.SendInitialEvents { // it begins with a list
				o.ResourceVersion = ""
				return watcher(ctx, o)
			}
			l, err := list(ctx, metav1.ListOptions{Limit: 1})
			if err == nil {
				err = reached(l, o.ResourceVersion)
			}
			if err != nil {
				return nil, err
			}
			return watcher(ctx, o)
		},
	}
	r := cache.NewReflectorWithOptions(lw, nil, store, cache.ReflectorOptions{
		Name:    name,
		Logger:  &logger,
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 5 * time.Second},
	})
	r.RunWithContext(logTo(ctx, log))
	return context.Cause(ctx)
}

// reached returns an error if a list shows that the cluster is younger than a version.
func reached(list runtime.Object, version string) error {
	l, err := meta.ListAccessor(list)
	if err != nil {
		return fmt.Errorf("kubestore: %w", err)
	}
	is, err := number(l.GetResourceVersion())
	if err != nil {
		return err
	}
	was, err := number(version)
	if err != nil {
		return err
	}
	if is < was {
		return apierrors.NewResourceExpired(fmt.Sprintf("the cluster was at %d, and is at %d", was, is))
	}
	return nil
}
