package stack

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Poll calls check at once and then after every interval until it returns nil.
// When ctx ends first, it returns an error that wraps both the context's and
// the last one of check.
func Poll(ctx context.Context, interval time.Duration, check func(context.Context) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stack: poll: %w", errors.Join(ctx.Err(), err))
		case <-ticker.C:
		}
	}
}
