package session

import (
	"context"
	"fmt"
	"time"
)

// The pauses between attempts double from the first to the last.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// retry calls f until it succeeds or the session must end, and takes note of how it went.
// An attempt that has lasted for long is no reason to wait for long.
func (s *Session) retry(ctx context.Context, what string, f func(context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		began := time.Now()
		err := f(ctx)
		switch {
		case err == nil:
			s.health.note(what, "", nil)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case final(ctx, err):
			return fmt.Errorf("session: %s: %w", what, err)
		}
		s.health.note(what, "", err)
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
