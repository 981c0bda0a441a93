package kubestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/argocd-fabric/argocd-agent/backend"
)

// defaultSilence is how long a watch may show nothing: an API server shows at least a
// bookmark a minute.
const defaultSilence = 150 * time.Second

// A follower keeps one store equal to what an API server lists and shows, whatever that
// does: what is not answered is given up, what is refused is tried again, later and later,
// and a watch that is silent, or known not to show what there is, is begun anew where it
// was. The log is told once when it cannot be followed, and once when it is again.
//
// To list it is not to follow it: an API server, or a proxy before it, that gives lists and no watches
// would have each change come late, and what comes and goes between two lists not at all. So it is
// followed once a watch runs: one that has shown something, or has not been ended at once.
type follower struct {
	name    string
	log     *zap.Logger
	silence time.Duration // how long a watch may show nothing
	patient time.Duration // how long a list, or a page of one, may take
	reach   backend.Reach

	mu     sync.Mutex
	failed int // how many requests have, one after the other
	lost   int // how many requests and watches have failed since it was followed
	mute   int // how many watches have been silent to their end, one after the other
	watch  *aliveWatch
}

func newFollower(name string, log *zap.Logger) *follower {
	return &follower{name: name, log: log.With(zap.String("follows", name)), silence: defaultSilence, patient: 2 * requestTime}
}

// Away implements backend.Remote.
func (f *follower) Away() (since time.Time, why error) {
	if since, why = f.reach.Away(); !since.IsZero() {
		why = fmt.Errorf("kubestore: follow %s: %w", f.name, why)
	}
	return since, why
}

// follow keeps store equal to what list and watch give until ctx is done, and returns
// the cause. It begins anew, after at most 10 s, whenever either fails.
//
// A list is never of an older state than the API server has when it is asked, and neither
// does it ask for one that is as new as the last: a cluster that was restored from a
// snapshot is younger than what it has shown. Nor is it watched from there on, for a watch
// from a version that the cluster has not come to yet is silent until it has.
func follow[L runtime.Object](
	ctx context.Context, f *follower, store cache.ReflectorStore,
	list func(context.Context, metav1.ListOptions) (L, error), open cache.WatchFuncWithContext,
) error {
	ask := func(ctx context.Context, o metav1.ListOptions, patient time.Duration) (l L, err error) {
		late := fmt.Errorf("a list was not answered within %v", patient)
		ctx, cancel := context.WithTimeoutCause(ctx, patient, late)
		defer cancel()
		l, err = list(ctx, o)
		return l, told(ctx, err)
	}
	lw := &cache.ListWatch{}
	lw.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		o.ResourceVersion = ""
		var l L
		err := f.attempt(ctx, func() (err error) {
			l, err = ask(ctx, o, f.patient)
			return err
		})
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (w watch.Interface, err error) {
		err = f.attempt(ctx, func() (err error) {
			if o.SendInitialEvents != nil && *o.SendInitialEvents { // it begins with a list
				o.ResourceVersion = ""
			} else if l, err := ask(ctx, metav1.ListOptions{Limit: 1}, f.patient/6); err != nil {
				return err
			} else if err := reached(l, o.ResourceVersion); err != nil {
				return err
			}
			if w, err = f.begin(ctx, o, open); err != nil && o.SendInitialEvents == nil && !apierrors.IsResourceExpired(err) {
				return fmt.Errorf("it can be listed, but not be watched, so that changes are seen late: %w", err)
			}
			return err
		})
		return w, err
	}
	ctx = logTo(ctx, f.log)
	logger := klog.FromContext(ctx)
	r := cache.NewReflectorWithOptions(lw, nil, store, cache.ReflectorOptions{
		Name:    f.name,
		Logger:  &logger,
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 5 * time.Second},
	})
	r.RunWithContext(ctx)
	return context.Cause(ctx)
}

// many is how many requests must fail, one after the other, before that is worth a word: a
// list that streams is tried plainly at once, and a watch that has expired fails, too.
const many = 3

// attempt makes a request, and takes note of how it went. The reflector pauses between its
// rounds, but not always within one: so the more have failed, the longer this waits.
func (f *follower) attempt(ctx context.Context, request func() error) error {
	f.mu.Lock()
	failed := f.failed
	f.mu.Unlock()
	if failed >= many {
		select {
		case <-time.After(min(100*time.Millisecond<<min(failed-many, 6), time.Second)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := request()
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		f.fail(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed++; err == nil {
		f.failed = 0
	}
	return err
}

// fail takes note that something has, for which the cluster may not be followed.
func (f *follower) fail(err error) {
	f.reach.Note(time.Now(), err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost++; f.lost == many {
		f.log.Warn("the cluster cannot be followed, which is tried again", zap.Error(err))
	}
}

// runs takes note that a watch does: it has shown something, or at least has not been ended at once. The
// latter says nothing of one before which others have been silent for too long.
func (f *follower) runs(shows bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if shows {
		f.mute = 0
	}
	if f.mute > 1 {
		return
	}
	f.reach.Note(time.Now(), nil)
	if f.lost >= many {
		f.log.Info("the cluster is followed again", zap.Int("failed", f.lost))
	}
	f.lost = 0
}

// ends takes note of how a watch has, nil if it was as it should be. The first that was silent for too long
// is none that failed: the connection may have been lost without a word.
func (f *follower) ends(err error) {
	f.mu.Lock()
	if errors.Is(err, errSilent) {
		f.mute++
	}
	first := errors.Is(err, errSilent) && f.mute == 1
	f.mu.Unlock()
	if err != nil && !first {
		f.fail(fmt.Errorf("it can be listed, but not be watched, so that changes are seen late: %w", err))
	}
}

// begin begins a watch. An API server that never answers is as silent as one that
// never shows anything.
func (f *follower) begin(ctx context.Context, o metav1.ListOptions, open cache.WatchFuncWithContext) (watch.Interface, error) {
	ctx, stop := context.WithCancelCause(ctx)
	late := time.AfterFunc(f.silence, func() { stop(fmt.Errorf("a watch was not answered within %v", f.silence)) })
	inner, err := open(ctx, o)
	late.Stop()
	if err != nil {
		err = told(ctx, err)
		stop(nil)
		return nil, err
	}
	w := newAliveWatch(inner, f.silence, f.runs, func(err error) {
		stop(nil)
		f.ends(err)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = w
	return w, nil
}

// doubt says that the running watch has not shown, for some time, what is known to be
// there: if it has run for longer than that it is begun anew.
func (f *follower) doubt(late time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != nil && time.Since(f.watch.began) > late {
		f.log.Info("a watch does not show what there is, and is begun anew")
		f.watch.Stop()
		f.watch = nil
	}
}

// told returns what is wrong: err, and why ctx is done, if that is so.
func told(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return err
	}
	return fmt.Errorf("%w (%w)", cause, err)
}

// hushed is a log for requests, and for reflectors: they would tell of each one that fails.
type hushed struct{ logr.LogSink }

// logTo returns a context whose requests log to log.
func logTo(ctx context.Context, log *zap.Logger) context.Context {
	return klog.NewContext(ctx, logr.New(hushed{zapr.NewLogger(log).GetSink()}))
}

// Enabled implements logr.LogSink.
func (hushed) Enabled(int) bool { return false }

// Error implements logr.LogSink.
func (h hushed) Error(err error, message string, values ...any) {
	for _, known := range []string{"Failed to watch", "Unexpected error when reading response body", "Stream error when reading response body"} {
		if strings.HasPrefix(message, known) {
			return // whoever asked is told
		}
	}
	h.LogSink.Error(err, message, values...)
}

// WithValues implements logr.LogSink.
func (h hushed) WithValues(values ...any) logr.LogSink {
	return hushed{h.LogSink.WithValues(values...)}
}

// WithName implements logr.LogSink.
func (h hushed) WithName(name string) logr.LogSink { return hushed{h.LogSink.WithName(name)} }
