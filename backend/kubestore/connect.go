package kubestore

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
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
// the cause. It begins anew, after at most 5 s, whenever either fails. A list is never of
// an older state than the API server has when it is asked.
func follow[L runtime.Object](
	ctx context.Context, name string, log *zap.Logger, store cache.ReflectorStore,
	list func(context.Context, metav1.ListOptions) (L, error), watch cache.WatchFuncWithContext,
) error {
	logger := zapr.NewLogger(log)
	lw := &cache.ListWatch{WatchFuncWithContext: watch}
	lw.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		if o.ResourceVersion == "0" { // any state, however old
			o.ResourceVersion = ""
		}
		l, err := list(ctx, o)
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	r := cache.NewReflectorWithOptions(lw, nil, store, cache.ReflectorOptions{
		Name:    name,
		Logger:  &logger,
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 5 * time.Second},
	})
	r.RunWithContext(logTo(ctx, log))
	return context.Cause(ctx)
}
