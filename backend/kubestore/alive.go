package kubestore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// An aliveWatch is a watch that ends if it shows nothing for too long.
type aliveWatch struct {
	inner   watch.Interface
	began   time.Time
	events  chan watch.Event
	once    sync.Once
	stopped chan struct{}
}

// atOnce is how long a watch must last that has shown nothing, to have been one. A reflector has the same
// measure.
const atOnce = time.Second

var (
	// errSilent says that a watch has shown nothing for too long, not even a bookmark.
	errSilent = errors.New("the watch was silent")
	// errAtOnce says that a watch was ended before it could show anything.
	errAtOnce = errors.New("the watch was ended at once")
)

// newAliveWatch watches over inner. runs is called when that has shown something, which it is told, or
// lasts; ended with why it has not, or nil, when inner has been stopped.
func newAliveWatch(inner watch.Interface, silence time.Duration, runs func(shows bool), ended func(error)) *aliveWatch {
	w := &aliveWatch{inner: inner, began: time.Now(), events: make(chan watch.Event), stopped: make(chan struct{})}
	go func() {
		defer close(w.events)
		err := w.pass(silence, runs)
		inner.Stop()
		ended(err)
	}()
	return w
}

// pass passes events on until there are no more, or none for too long.
func (w *aliveWatch) pass(silence time.Duration, runs func(shows bool)) error {
	quiet, lasts := time.NewTimer(silence), time.NewTimer(atOnce)
	defer quiet.Stop()
	defer lasts.Stop()
	var said error // in place of anything else
	for shown, lasted := false, false; ; {
		select {
		case e, ok := <-w.inner.ResultChan():
			switch {
			case !ok && !shown && !lasted && said == nil:
				return errAtOnce
			case !ok:
				return said
			case shown:
			case e.Type == watch.Error:
				said = apierrors.FromObject(e.Object)
			default:
				shown = true
				runs(true)
			}
			select {
			case w.events <- e:
			case <-w.stopped:
				return said
			}
			quiet.Reset(silence)
		case <-lasts.C:
			if lasted = true; !shown && said == nil {
				runs(false)
			}
		case <-quiet.C:
			return fmt.Errorf("%w for %v", errSilent, silence)
		case <-w.stopped:
			return said
		}
	}
}

// Stop implements watch.Interface.
func (w *aliveWatch) Stop() { w.once.Do(func() { close(w.stopped) }) }

// ResultChan implements watch.Interface.
func (w *aliveWatch) ResultChan() <-chan watch.Event { return w.events }
