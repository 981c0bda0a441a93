package command

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// A wait is what a program does before anything else that reaches out: it waits for what it cannot
// begin without, its own cluster, for as long as that takes. A node that has been restarted starts its
// pods before its API server answers them, and a program that ended instead would be begun anew later
// and later, up to minutes after the cluster is back. Meanwhile it lives, has not started, and says
// in the log and by its probes what it waits for.
type wait struct {
	says    string                      // that it waits, and for what
	answers func(context.Context) error // asks that once
	log     *zap.Logger
	why     atomic.Pointer[error] // why the last try failed; nil before
}

const (
	// firstTry is how long the first try may take before the log says that it is waited for; the
	// others may take longer and longer, up to longestTry, for a cluster may also be slow.
	firstTry   = 3 * time.Second
	longestTry = 30 * time.Second
	// longestPause is the longest between two tries, and reminder after what time the log is told again.
	longestPause = 5 * time.Second
	reminder     = 30 * time.Second
)

// run returns nil once it has been answered, or the cause of ctx.
func (w *wait) run(ctx context.Context) error {
	began, told := time.Now(), time.Time{}
	for patience, pause := firstTry, longestPause/8; ; patience, pause = min(2*patience, longestTry), min(2*pause, longestPause) {
		err := w.ask(ctx, patience)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			if !told.IsZero() {
				w.log.Info("there is an answer", zap.String("after", w.says), zap.Duration("waited", time.Since(began).Round(time.Millisecond)))
			}
			return nil
		}
		w.why.Store(&err)
		if time.Since(told) >= reminder {
			w.log.Warn(w.says+", which is asked again and again", zap.Error(err))
			told = time.Now()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask asks once.
func (w *wait) ask(ctx context.Context, patience time.Duration) error {
	late := fmt.Errorf("it has not answered within %v", patience)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, late)
	defer cancel()
	err := w.answers(ctx)
	if err != nil && context.Cause(ctx) == late {
		return late
	}
	return err
}

// ready says that it is waited, and why.
func (w *wait) ready() error {
	if why := w.why.Load(); why != nil {
		return fmt.Errorf("%s: %w", w.says, *why)
	}
	return errors.New(w.says)
}

var errAnswered = errors.New("what was waited for answers")

// await waits until the cluster that the program is in answers, and has the probes answered meanwhile.
func (p program) await(ctx context.Context, in cluster) error {
	if in.answers == nil {
		return nil
	}
	w := &wait{says: in.waiting, answers: in.answers, log: p.log}
	g, inner := errgroup.WithContext(ctx)
	g.Go(func() error { return page{"healthz-port", p.health, health(w.ready)}.Run(inner) })
	g.Go(func() error {
		if err := w.run(inner); err != nil {
			return err
		}
		return errAnswered // ends the page
	})
	if err := g.Wait(); !errors.Is(err, errAnswered) {
		return err
	}
	return nil
}
